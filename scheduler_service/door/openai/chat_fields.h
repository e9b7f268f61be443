// Conversations of OpenAI's API as a ChatInput.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_CHAT_FIELDS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_CHAT_FIELDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/openai/json_fields.h"

namespace bole {

// A string, or the texts of an array of parts, put together.
absl::StatusOr<std::string> ReadContent(const OrderedJson& json,
                                        const std::string& path);

// One element of a chat's `messages`.
absl::StatusOr<v1::ChatMessage> ReadChatMessage(const OrderedJson& json,
                                                const std::string& path);

// The role as the template knows it: a developer's words are the system's.
// INVALID_ARGUMENT if it is none.
absl::StatusOr<std::string> ReadRole(JsonFields& fields);

// tools, tool_choice, parallel_tool_calls, chat_template_kwargs,
// add_generation_prompt. With `flat_tools` a tool has its function's members
// itself, as in the responses API; `chat` gets it as in a chat.
void ReadTools(JsonFields& fields, bool flat_tools, v1::ChatInput& chat);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_CHAT_FIELDS_H_
