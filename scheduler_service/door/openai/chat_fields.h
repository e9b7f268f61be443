// Reads conversations of OpenAI's API into a ChatInput.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_CHAT_FIELDS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_CHAT_FIELDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/openai/json_fields.h"

namespace bole {

// Reads a string, or the concatenated texts of an array of parts.
absl::StatusOr<std::string> ReadContent(const OrderedJson& json,
                                        const std::string& path);

// Reads one element of a chat's `messages`.
absl::StatusOr<v1::ChatMessage> ReadChatMessage(const OrderedJson& json,
                                                const std::string& path);

// Reads the role as the template knows it: "developer" becomes "system".
// INVALID_ARGUMENT if it is not a role.
absl::StatusOr<std::string> ReadRole(JsonFields& fields);

// Reads tools, tool_choice, parallel_tool_calls, chat_template_kwargs and
// add_generation_prompt. With `flat_tools` the function's members are those of
// the tool itself, as in the responses API; `chat` gets them in the form of the
// chat API.
void ReadTools(JsonFields& fields, bool flat_tools, v1::ChatInput& chat);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_CHAT_FIELDS_H_
