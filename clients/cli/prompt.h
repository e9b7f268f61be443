// What a command is asked to work on: an argument, or what comes in a pipe.
#ifndef BOLE_CLIENTS_CLI_PROMPT_H_
#define BOLE_CLIENTS_CLI_PROMPT_H_

#include <optional>
#include <string>

#include "clients/sdk/requests.h"
#include "proto/bole.pb.h"

namespace bole {

// Sets `text` to `argument`, or to all of stdin if it is "-", or if it is
// absent and stdin is no terminal. Otherwise, or if that is no UTF-8, says so
// of `name`. Returns the exit code.
int ReadText(const std::string& name,
             const std::optional<std::string>& argument, std::string& text);

// A conversation before its first turn: empty, or with `system` in it.
v1::ChatInput NewChat(const std::optional<std::string>& system);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_PROMPT_H_
