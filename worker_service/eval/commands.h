// The commands of bole-eval.
#ifndef BOLE_WORKER_SERVICE_EVAL_COMMANDS_H_
#define BOLE_WORKER_SERVICE_EVAL_COMMANDS_H_

#include <functional>

#include "absl/status/status.h"
#include "common/command_line.h"

namespace bole {

// Each adds its subcommand and flags to `app`, and returns a function that runs
// it once the command line is parsed.
using Command = std::function<absl::Status()>;

Command AddAnswerCommand(CommandLine& app);
Command AddBenchCommand(CommandLine& app);
Command AddDraftTokensCommand(CommandLine& app);
Command AddForwardCommand(CommandLine& app);
Command AddGenerateCommand(CommandLine& app);
Command AddReplayCommand(CommandLine& app);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_COMMANDS_H_
