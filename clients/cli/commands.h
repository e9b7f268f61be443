// The commands of `bole`, one file each.
#ifndef BOLE_CLIENTS_CLI_COMMANDS_H_
#define BOLE_CLIENTS_CLI_COMMANDS_H_

#include <functional>

#include "clients/cli/interrupt.h"

namespace CLI {
class App;
}  // namespace CLI

namespace bole {

// Runs a command whose flags were parsed. Returns the exit code.
using Command = std::function<int()>;

// Each adds a command to `app`. Both outlive the command.
Command AddGenerateCommand(CLI::App& app, Interrupt& interrupt);
Command AddChatCommand(CLI::App& app, Interrupt& interrupt);
Command AddTokenizeCommand(CLI::App& app, Interrupt& interrupt);
Command AddDetokenizeCommand(CLI::App& app, Interrupt& interrupt);
Command AddInfoCommand(CLI::App& app, Interrupt& interrupt);
Command AddHealthCommand(CLI::App& app, Interrupt& interrupt);
Command AddBenchCommand(CLI::App& app, Interrupt& interrupt);
// `bole bench compare`.
Command AddBenchCompareCommand(CLI::App& bench);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_COMMANDS_H_
