// The input of a command: an argument, or stdin.
#ifndef BOLE_CLIENTS_CLI_PROMPT_H_
#define BOLE_CLIENTS_CLI_PROMPT_H_

#include <optional>
#include <string>

#include "clients/sdk/requests.h"
#include "proto/bole.pb.h"

namespace bole {

// Sets `text` to `argument`, or to all of stdin if it is "-", or if it is
// absent and stdin is not a terminal. Otherwise, or if that is not UTF-8,
// prints an error about `name`. Returns the exit code.
int ReadText(const std::string& name,
             const std::optional<std::string>& argument, std::string& text);

// A conversation before its first turn: empty, or with `system` in it.
v1::ChatInput NewChat(const std::optional<std::string>& system);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_PROMPT_H_
