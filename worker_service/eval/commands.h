// The commands of bole-eval.
#ifndef BOLE_WORKER_SERVICE_EVAL_COMMANDS_H_
#define BOLE_WORKER_SERVICE_EVAL_COMMANDS_H_

#include <functional>

#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace bole {

// Each adds its subcommand and flags to `app`, and returns what runs it once
// the command line is parsed.
using Command = std::function<absl::Status()>;

Command AddAnswerCommand(CLI::App& app);
Command AddBenchCommand(CLI::App& app);
Command AddDraftTokensCommand(CLI::App& app);
Command AddForwardCommand(CLI::App& app);
Command AddGenerateCommand(CLI::App& app);
Command AddReplayCommand(CLI::App& app);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_COMMANDS_H_
