// Reads the `input` of OpenAI's responses API as the messages of a chat.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_RESPONSES_INPUT_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_RESPONSES_INPUT_H_

#include <string>

#include "absl/status/status.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/openai/json_fields.h"

namespace bole {

// Appends the messages of a string or an array of items. What the model wrote
// in one turn, its reasoning, text and calls, becomes one message.
absl::Status ReadResponsesInput(const OrderedJson& json,
                                const std::string& path, v1::ChatInput& chat);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_RESPONSES_INPUT_H_
