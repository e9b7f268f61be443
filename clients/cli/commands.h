// The commands of `bole`.
#ifndef BOLE_CLIENTS_CLI_COMMANDS_H_
#define BOLE_CLIENTS_CLI_COMMANDS_H_

#include <functional>

#include "clients/cli/interrupt.h"
#include "common/command_line.h"

namespace bole {

// Runs a command whose flags were parsed. Returns the exit code.
using Command = std::function<int()>;

// Each adds a command to `app`. Both outlive the command.
Command AddGenerateCommand(CommandLine& app, Interrupt& interrupt);
Command AddChatCommand(CommandLine& app, Interrupt& interrupt);
Command AddTokenizeCommand(CommandLine& app, Interrupt& interrupt);
Command AddDetokenizeCommand(CommandLine& app, Interrupt& interrupt);
Command AddInfoCommand(CommandLine& app, Interrupt& interrupt);
Command AddHealthCommand(CommandLine& app, Interrupt& interrupt);
Command AddBenchCommand(CommandLine& app, Interrupt& interrupt);
Command AddTuneCommand(CommandLine& app);
Command AddDebugCommand(CommandLine& app, Interrupt& interrupt);
// `bole bench compare`.
Command AddBenchCompareCommand(CommandLine& bench);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_COMMANDS_H_
