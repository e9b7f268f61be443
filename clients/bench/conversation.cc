#include "clients/bench/conversation.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "clients/bench/synthetic.h"

namespace bole::bench {
namespace {

// Without a chat template, messages are paragraphs of one text.
std::string JoinMessages(const std::vector<Message>& messages) {
  return absl::StrJoin(messages, "\n\n",
                       [](std::string* out, const Message& message) {
                         out->append(message.content);
                       });
}

}  // namespace

void Conversation::Extend(const Turn& turn) {
  if (const auto* segments = std::get_if<std::vector<Segment>>(&turn.input)) {
    for (const Segment& segment : *segments) {
      AppendIds(segment, options_.load_seed, options_.vocab_size, ids_);
    }
    return;
  }
  const auto& input = std::get<std::vector<Message>>(turn.input);
  messages_.insert(messages_.end(), input.begin(), input.end());
}

v1::GenerateRequest Conversation::Request(const Turn& turn) const {
  v1::GenerateRequest request;
  request.set_stream(true);
  request.set_model(options_.model);
  *request.mutable_sampling_params() = options_.sampling;
  if (options_.targets) *request.mutable_targets() = *options_.targets;
  if (turn.output_tokens) {
    request.mutable_sampling_params()->set_max_tokens(*turn.output_tokens);
  }
  if (std::holds_alternative<std::vector<Segment>>(turn.input)) {
    request.mutable_token_ids()->mutable_ids()->Assign(ids_.begin(),
                                                       ids_.end());
    return request;
  }
  if (!options_.chat) {
    request.set_text(JoinMessages(messages_));
    return request;
  }
  for (const Message& message : messages_) {
    v1::ChatMessage& added = *request.mutable_chat()->add_messages();
    added.set_role(message.role);
    added.set_content(message.content);
  }
  return request;
}

void Conversation::Answer(const Turn& turn, const std::string& text,
                          const std::vector<uint32_t>& ids) {
  const bool own = options_.history == History::kModel;
  if (std::holds_alternative<std::vector<Message>>(turn.input)) {
    messages_.push_back({"assistant", own ? text : turn.recorded_answer});
    return;
  }
  if (own) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    return;
  }
  const Segment recorded{.seed = ids_.size(),
                         .length = turn.output_tokens.value_or(0)};
  AppendIds(recorded, options_.load_seed, options_.vocab_size, ids_);
}

}  // namespace bole::bench
