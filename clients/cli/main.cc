// bole: the services on the command line.
#include <cstddef>
#include <vector>

#include "CLI/CLI.hpp"
#include "clients/cli/commands.h"
#include "clients/cli/failure.h"

int main(int argc, char** argv) {
  bole::Interrupt interrupt;
  CLI::App app("Talks to a Bole scheduler.", "bole");
  app.require_subcommand(1);
  app.footer(bole::kExitCodesHelp);
  const std::vector<bole::Command> commands = {
      bole::AddGenerateCommand(app, interrupt),
      bole::AddChatCommand(app, interrupt),
      bole::AddTokenizeCommand(app, interrupt),
      bole::AddDetokenizeCommand(app, interrupt),
      bole::AddInfoCommand(app, interrupt),
      bole::AddHealthCommand(app, interrupt),
      bole::AddBenchCommand(app, interrupt)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? bole::kExitOk : bole::kExitUsage;
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    if (app.get_subcommand(static_cast<int>(i))->parsed()) return commands[i]();
  }
  return bole::kExitUsage;
}
