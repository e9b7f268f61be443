// bole-eval: the engine on the command line, offline and without services.
#include <cstdio>
#include <vector>

#include "CLI/CLI.hpp"
#include "worker_service/eval/commands.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Runs a Qwen3.5 checkpoint offline: one answer, a file of prompts, one "
      "forward with every tensor, the steps that a worker recorded, or "
      "benchmarks.",
      "bole-eval");
  app.require_subcommand(1);
  const std::vector<bole::Command> commands = {
      bole::AddAnswerCommand(app),  bole::AddGenerateCommand(app),
      bole::AddForwardCommand(app), bole::AddReplayCommand(app),
      bole::AddBenchCommand(app),   bole::AddDraftTokensCommand(app)};
  CLI11_PARSE(app, argc, argv);
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!app.get_subcommand(static_cast<int>(i))->parsed()) continue;
    const absl::Status status = commands[i]();
    if (status.ok()) return 0;
    std::fprintf(stderr, "bole-eval: %s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
