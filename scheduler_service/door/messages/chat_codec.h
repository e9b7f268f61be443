// Renders conversations of bole.v1 as prompt text.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_CHAT_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_CHAT_CODEC_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat/output/output_format.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/bole.pb.h"
#include "scheduler_service/models/model_text.h"

namespace bole {

inline constexpr int kMaxChatMessages = 1024;
inline constexpr int kMaxTools = 128;  // And of calls in one message.
inline constexpr size_t kMaxRoleBytes = 64;
inline constexpr size_t kMaxChatNameBytes = 256;  // Names and ids of calls.
// Bounds on the JSON texts of one conversation: their total size, their depth,
// and the members of an object, since these are compared with each other.
inline constexpr size_t kMaxJsonBytes = 256 << 10;
inline constexpr int kMaxJsonDepth = 32;
inline constexpr size_t kMaxJsonMembers = 256;

// Returns the variables of a chat template: `messages` and
// `add_generation_prompt`; `tools` if there are any and they may be called; and
// those of template_kwargs_json. Empty members of a message are left out,
// except its content. JSON texts become objects whose members keep their order.
//
// INVALID_ARGUMENT, naming the field and its value, for a bound above that is
// exceeded, a role that is missing, JSON that is no object, and a tool_choice
// that is none. UNIMPLEMENTED, naming it: TOOL_CHOICE_REQUIRED.
absl::StatusOr<nlohmann::ordered_json> DecodeChat(const v1::ChatInput& chat);

struct RenderedChat {
  std::string text;
  // How to parse the answer; null unless parsing was requested.
  std::shared_ptr<const OutputFormat> output = nullptr;
};

// Renders the conversation with the model's own template. INVALID_ARGUMENT as
// above, or if there is no template, or if it refuses the conversation;
// UNIMPLEMENTED, naming parse_output, if there are tools that may be called and
// the template writes calls in no known CallForm.
absl::StatusOr<RenderedChat> RenderChat(const v1::ChatInput& chat,
                                        const ModelText& text);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_CHAT_CODEC_H_
