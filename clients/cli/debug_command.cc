// bole debug: the scheduler's last rounds, from a server or from a file.
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/failure.h"
#include "clients/cli/write_file.h"
#include "clients/rounds/round_file.h"
#include "clients/rounds/round_report.h"
#include "common/command_line.h"
#include "common/tokenizer/read_file.h"

namespace bole {
namespace {

struct DumpFlags {
  ConnectionFlags connection;
  std::string out;  // Empty: stdout.
};

struct RoundsFlags {
  std::string file;
  std::string svg;  // Empty: none.
};

// A recorder keeps about one MiB.
constexpr size_t kMaxFile = 64 << 20;

// These return the exit code.
int Dump(const DumpFlags& flags, Interrupt& interrupt) {
  Connection connection(flags.connection, interrupt);
  v1::DumpRoundsResponse rounds;
  const int exit_code = AskServer(connection, &Client::DumpRounds, rounds);
  if (exit_code != kExitOk) return exit_code;
  if (!flags.out.empty()) return WriteFile(flags.out, rounds.json_lines());
  std::fputs(rounds.json_lines().c_str(), stdout);
  return kExitOk;
}

std::string Text(const absl::Status& status) {
  const absl::string_view message = status.message();
  return std::string(message.data(), message.size());
}

int Rounds(const RoundsFlags& flags) {
  const absl::StatusOr<std::string> text = ReadFile(flags.file, kMaxFile);
  if (!text.ok()) return UsageError(Text(text.status()));
  const absl::StatusOr<RoundFile> file = ParseRounds(*text);
  if (!file.ok()) {
    return UsageError(absl::StrCat(flags.file, ": ", Text(file.status())));
  }
  std::fputs(RoundSummary(*file).c_str(), stdout);
  return flags.svg.empty() ? kExitOk : WriteFile(flags.svg, RoundSvg(*file));
}

}  // namespace

Command AddDebugCommand(CommandLine& app, Interrupt& interrupt) {
  auto dump_flags = std::make_shared<DumpFlags>();
  auto rounds_flags = std::make_shared<RoundsFlags>();
  CommandLine& debug =
      app.AddCommand("debug", "The last rounds, as the services keep them.");
  debug.RequireCommand();
  CommandLine& dump = debug.AddCommand(
      "dump", "The scheduler's last rounds, as lines of JSON.");
  dump_flags->connection.AddTo(dump);
  dump.Add("--out", dump_flags->out, "file to write; otherwise stdout");
  CommandLine& rounds = debug.AddCommand(
      "rounds",
      "What a file of rounds tells: one of `bole debug dump`, or one that a "
      "service has written into its --flight-recorder-dir.");
  rounds.Add("FILE", rounds_flags->file, "lines of JSON").Required();
  rounds.Add("--svg", rounds_flags->svg,
             "draw the rounds into this file: the times of their phases, nodes "
             "and budgets, requests, tokens");
  return [dump_flags, rounds_flags, &debug, &interrupt] {
    return *debug.command() == 0 ? Dump(*dump_flags, interrupt)
                                 : Rounds(*rounds_flags);
  };
}

}  // namespace bole
