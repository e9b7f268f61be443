// bole-eval: the engine on the command line, offline and without services.
#include <cstdio>
#include <vector>

#include "absl/status/status.h"
#include "common/command_line.h"
#include "worker_service/eval/commands.h"

int main(int argc, char** argv) {
  bole::CommandLine app("bole-eval",
                        "Runs a Qwen3.5 checkpoint offline: one answer, a file "
                        "of prompts, one forward with every tensor, the steps "
                        "that a worker recorded, or benchmarks.");
  app.RequireCommand();
  const std::vector<bole::Command> commands = {
      bole::AddAnswerCommand(app),  bole::AddGenerateCommand(app),
      bole::AddForwardCommand(app), bole::AddReplayCommand(app),
      bole::AddBenchCommand(app),   bole::AddDraftTokensCommand(app)};
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const absl::Status status = commands[*app.command()]();
  if (status.ok()) return 0;
  std::fprintf(stderr, "bole-eval: %s\n", status.ToString().c_str());
  return 1;
}
