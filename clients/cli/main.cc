// bole: the services on the command line.
#include <vector>

#include "clients/cli/commands.h"
#include "clients/cli/failure.h"
#include "common/command_line.h"

int main(int argc, char** argv) {
  bole::Interrupt interrupt;
  bole::CommandLine app("bole", "Talks to a Bole scheduler.");
  app.RequireCommand();
  app.Footer(bole::kExitCodesHelp);
  const std::vector<bole::Command> commands = {
      bole::AddGenerateCommand(app, interrupt),
      bole::AddChatCommand(app, interrupt),
      bole::AddTokenizeCommand(app, interrupt),
      bole::AddDetokenizeCommand(app, interrupt),
      bole::AddInfoCommand(app, interrupt),
      bole::AddHealthCommand(app, interrupt),
      bole::AddBenchCommand(app, interrupt),
      bole::AddTuneCommand(app),
      bole::AddDebugCommand(app, interrupt)};
  if (const auto exit_code = app.Parse(argc, argv)) {
    return *exit_code == 0 ? bole::kExitOk : bole::kExitUsage;
  }
  return commands[*app.command()]();
}
