// Writes chat.completion and chat.completion.chunk objects.
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler_service/door/openai/answer_writer.h"

namespace bole {
namespace {

using ToolCalls = google::protobuf::RepeatedPtrField<v1::ToolCall>;

class ChatWriter : public OpenAiAnswer::Writer {
 public:
  ChatWriter(const OpenAiRequest& request, AnswerHead head)
      : id_(head.id),
        head_(std::move(head), "chat.completion.chunk"),
        logprobs_(request.message.sampling_params().has_logprobs()),
        token_ids_(request.return_token_ids),
        include_usage_(request.include_usage) {}

  void AppendEvents(const v1::GenerateResponse& response,
                    std::string& out) override {
    head_.set_model(response.model());
    if (response.has_chunk()) {
      AppendChunk(response.chunk(), out);
    } else {
      AppendLast(response.complete(), out);
    }
  }

  void AppendEnd(std::string& out) override {
    if (include_usage_) {
      head_.AppendEvent(
          {{"choices", AnswerJson::array()}, {"usage", usage_.ToJson()}}, out);
    }
    out += "data: [DONE]\n\n";
  }

  void Add(const v1::GenerateResponse& response) override {
    head_.set_model(response.model());
    const v1::GenerateComplete& complete = response.complete();
    usage_.Add(complete.index(), complete.usage());
    AnswerJson message = {{"role", "assistant"},
                          {"content", complete.text()},
                          {"refusal", nullptr}};
    if (!complete.reasoning_content().empty()) {
      message["reasoning_content"] = complete.reasoning_content();
    }
    if (complete.tool_calls_size() > 0) {
      if (complete.text().empty()) message["content"] = nullptr;
      message["tool_calls"] = CallsJson(complete.index(), complete.tool_calls(),
                                        /*with_index=*/false);
    }
    choices_[complete.index()] = {
        {"index", complete.index()},
        {"message", std::move(message)},
        {"logprobs", LogprobsJson(complete.output_logprobs())},
        {"finish_reason", FinishReason(complete)},
        {"stop_reason", StopReasonJson(complete)}};
    if (token_ids_) {
      choices_[complete.index()]["token_ids"] = TokenIdsJson(complete);
    }
    if (complete.has_prompt()) prompt_ = PromptLogprobsJson(complete.prompt());
  }

  std::string Whole() const override {
    AnswerJson json = head_.ToJson();
    json["object"] = "chat.completion";
    json["choices"] = AnswerJson::array();
    for (const auto& [index, choice] : choices_) {
      json["choices"].push_back(choice);
    }
    json["usage"] = usage_.ToJson();
    if (!prompt_.is_null()) json["prompt_logprobs"] = prompt_;
    return ToText(json);
  }

 private:
  // What was sent of a choice.
  struct Sent {
    bool role = false;
    int num_calls = 0;
  };

  AnswerJson LogprobsJson(const TokenLogprobs& logprobs) const {
    if (!logprobs_) return nullptr;
    return {{"content", TokenLogprobsJson(logprobs)}, {"refusal", nullptr}};
  }

  // Numbers the calls as the next ones of the choice.
  AnswerJson CallsJson(uint32_t choice, const ToolCalls& calls,
                       bool with_index) {
    AnswerJson all = AnswerJson::array();
    for (const v1::ToolCall& call : calls) {
      const int index = sent_[choice].num_calls++;
      AnswerJson json = AnswerJson::object();
      if (with_index) json["index"] = index;
      json["id"] = call.id().empty()
                       ? absl::StrCat("call_", id_, "_", choice, "_", index)
                       : call.id();
      json["type"] = "function";
      json["function"] = {{"name", call.name()},
                          {"arguments", call.arguments_json()}};
      all.push_back(std::move(json));
    }
    return all;
  }

  // A choice that stops after at least one call has the reason "tool_calls".
  AnswerJson FinishReason(const v1::GenerateComplete& complete) {
    if (complete.finish_reason() == v1::FINISH_REASON_STOP &&
        sent_[complete.index()].num_calls > 0) {
      return "tool_calls";
    }
    return FinishReasonName(complete.finish_reason());
  }

  static AnswerJson DeltaJson(uint32_t choice, AnswerJson delta,
                              AnswerJson logprobs) {
    return {{"index", choice},
            {"delta", std::move(delta)},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", nullptr}};
  }

  void AppendChoice(AnswerJson choice, std::string& out) {
    AnswerJson json = {{"choices", AnswerJson::array({std::move(choice)})}};
    if (include_usage_) json["usage"] = nullptr;
    if (!prompt_.is_null()) {
      json["prompt_logprobs"] = std::exchange(prompt_, nullptr);
    }
    head_.AppendEvent(json, out);
  }

  void AppendRole(uint32_t choice, std::string& out) {
    if (std::exchange(sent_[choice].role, true)) return;
    AppendChoice(
        DeltaJson(choice, {{"role", "assistant"}, {"content", ""}}, nullptr),
        out);
  }

  // Appends what is new in a chunk or in a complete message.
  template <typename Message>
  void AppendNews(const Message& message, std::string& out) {
    if (message.has_prompt()) prompt_ = PromptLogprobsJson(message.prompt());
    AppendRole(message.index(), out);
    AnswerJson delta = AnswerJson::object();
    if (!message.reasoning_content().empty()) {
      delta["reasoning_content"] = message.reasoning_content();
    }
    if (!message.text().empty()) delta["content"] = message.text();
    if (message.tool_calls_size() > 0) {
      delta["tool_calls"] = CallsJson(message.index(), message.tool_calls(),
                                      /*with_index=*/true);
    }
    AnswerJson ids = token_ids_ ? TokenIdsJson(message) : AnswerJson::array();
    const bool has_logprobs = message.output_logprobs_size() > 0;
    if (delta.empty() && !has_logprobs && ids.empty()) return;
    // Text may come later than its tokens.
    if (delta.empty()) delta["content"] = "";
    AnswerJson choice = DeltaJson(message.index(), std::move(delta),
                                  LogprobsJson(message.output_logprobs()));
    if (token_ids_) choice["token_ids"] = std::move(ids);
    AppendChoice(std::move(choice), out);
  }

  void AppendChunk(const v1::GenerateChunk& chunk, std::string& out) {
    AppendNews(chunk, out);
  }

  void AppendLast(const v1::GenerateComplete& complete, std::string& out) {
    AppendNews(complete, out);
    usage_.Add(complete.index(), complete.usage());
    AppendChoice({{"index", complete.index()},
                  {"delta", AnswerJson::object()},
                  {"logprobs", nullptr},
                  {"finish_reason", FinishReason(complete)},
                  {"stop_reason", StopReasonJson(complete)}},
                 out);
  }

  const std::string id_;
  ObjectHead head_;
  const bool logprobs_;
  const bool token_ids_;
  const bool include_usage_;
  UsageSum usage_;
  std::map<uint32_t, Sent> sent_;
  std::map<uint32_t, AnswerJson> choices_;  // Only if not streamed.
  AnswerJson prompt_;                       // Until it was sent.
};

}  // namespace

std::unique_ptr<OpenAiAnswer::Writer> MakeChatWriter(
    const OpenAiRequest& request, AnswerHead head) {
  return std::make_unique<ChatWriter>(request, std::move(head));
}

}  // namespace bole
