// Writes text_completion objects, streamed or whole.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "scheduler_service/door/openai/answer_writer.h"

namespace bole {
namespace {

// Log probabilities in the format of completions, column by column.
class LogprobColumns {
 public:
  AnswerJson Take() {
    return {{"tokens", std::exchange(tokens_, AnswerJson::array())},
            {"token_logprobs", std::exchange(logprobs_, AnswerJson::array())},
            {"top_logprobs", std::exchange(top_, AnswerJson::array())},
            {"text_offset", std::exchange(offsets_, AnswerJson::array())}};
  }

  void Add(const TokenLogprobs& logprobs) {
    for (const v1::TokenLogprob& token : logprobs) {
      AnswerJson top = AnswerJson::object();
      for (const v1::TopLogprob& other : token.top()) {
        top[other.text()] = FiniteLogprob(other.logprob());
      }
      top[token.text()] = FiniteLogprob(token.logprob());
      AddToken(token.text(), token.bytes(), FiniteLogprob(token.logprob()),
               std::move(top));
    }
  }

  // The prompt's first token has no probability; its text is the part of the
  // prompt's text that the other tokens do not cover.
  void AddPrompt(const v1::PromptOutput& prompt) {
    size_t rest = 0;
    for (const v1::TokenLogprob& token : prompt.logprobs()) {
      rest += token.bytes().size();
    }
    const std::string& text = prompt.text();
    const std::string first =
        text.substr(0, text.size() - std::min(rest, text.size()));
    AddToken(first, first, nullptr, nullptr);
    Add(prompt.logprobs());
  }

 private:
  void AddToken(const std::string& text, const std::string& bytes,
                AnswerJson logprob, AnswerJson top) {
    tokens_.push_back(text);
    logprobs_.push_back(std::move(logprob));
    top_.push_back(std::move(top));
    offsets_.push_back(offset_);
    offset_ += std::count_if(bytes.begin(), bytes.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    });
  }

  AnswerJson tokens_ = AnswerJson::array();
  AnswerJson logprobs_ = AnswerJson::array();
  AnswerJson top_ = AnswerJson::array();
  AnswerJson offsets_ = AnswerJson::array();
  int64_t offset_ = 0;  // In characters.
};

class CompletionsWriter : public OpenAiAnswer::Writer {
 public:
  CompletionsWriter(const OpenAiRequest& request, AnswerHead head)
      : head_(std::move(head), "text_completion"),
        logprobs_(request.message.sampling_params().has_logprobs()),
        echo_(request.message.echo()),
        prompt_logprobs_(request.message.has_prompt_logprobs()),
        token_ids_(request.return_token_ids),
        include_usage_(request.include_usage) {}

  void AppendEvents(const v1::GenerateResponse& response,
                    std::string& out) override {
    head_.set_model(response.model());
    if (const v1::PromptOutput* prompt = PromptOf(response)) prompt_ = *prompt;
    // Every choice begins with the prompt, which arrives with only one of them.
    if (echo_ && !prompt_) {
      early_.push_back(response);
      return;
    }
    AppendChoice(response, out);
    for (const v1::GenerateResponse& early : std::exchange(early_, {})) {
      AppendChoice(early, out);
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
    if (const v1::PromptOutput* prompt = PromptOf(response)) prompt_ = *prompt;
    usage_.Add(response.complete().index(), response.complete().usage());
    complete_[response.complete().index()] = response.complete();
  }

  std::string Whole() const override {
    AnswerJson json = head_.ToJson();
    json["choices"] = AnswerJson::array();
    for (const auto& [index, complete] : complete_) {
      LogprobColumns columns;
      AnswerJson choice = ChoiceJson(complete, /*first=*/true, columns);
      End(complete, choice);
      json["choices"].push_back(std::move(choice));
    }
    json["usage"] = usage_.ToJson();
    return ToText(json);
  }

 private:
  // What was sent of a choice.
  struct Sent {
    bool first = false;
    LogprobColumns columns;
  };

  static const v1::PromptOutput* PromptOf(
      const v1::GenerateResponse& response) {
    if (response.has_chunk() && response.chunk().has_prompt()) {
      return &response.chunk().prompt();
    }
    if (response.has_complete() && response.complete().has_prompt()) {
      return &response.complete().prompt();
    }
    return nullptr;
  }

  // What is new in a chunk or a complete message, after the prompt if it is the
  // `first` one of its choice.
  template <typename Message>
  AnswerJson ChoiceJson(const Message& message, bool first,
                        LogprobColumns& columns) const {
    const bool with_prompt = first && echo_ && prompt_;
    AnswerJson json = {{"index", message.index()},
                       {"text", with_prompt ? prompt_->text() + message.text()
                                            : message.text()},
                       {"logprobs", nullptr},
                       {"finish_reason", nullptr}};
    if (logprobs_) {
      if (with_prompt && prompt_logprobs_) columns.AddPrompt(*prompt_);
      columns.Add(message.output_logprobs());
      json["logprobs"] = columns.Take();
    }
    if (token_ids_) json["token_ids"] = TokenIdsJson(message);
    if (first && prompt_logprobs_ && prompt_) {
      json["prompt_logprobs"] = PromptLogprobsJson(*prompt_);
    }
    return json;
  }

  static void End(const v1::GenerateComplete& complete, AnswerJson& choice) {
    choice["finish_reason"] = FinishReasonName(complete.finish_reason());
    choice["stop_reason"] = StopReasonJson(complete);
  }

  void AppendChoice(const v1::GenerateResponse& response, std::string& out) {
    if (response.has_chunk()) {
      const v1::GenerateChunk& chunk = response.chunk();
      AnswerJson choice = NextJson(chunk);
      // Text may come later than its tokens.
      if (choice["text"] == "" && chunk.output_logprobs_size() == 0 &&
          !(token_ids_ && chunk.token_ids_size() > 0)) {
        return;
      }
      return AppendJson(std::move(choice), out);
    }
    const v1::GenerateComplete& complete = response.complete();
    usage_.Add(complete.index(), complete.usage());
    AnswerJson choice = NextJson(complete);
    End(complete, choice);
    AppendJson(std::move(choice), out);
  }

  template <typename Message>
  AnswerJson NextJson(const Message& message) {
    Sent& sent = sent_[message.index()];
    const bool first = !std::exchange(sent.first, true);
    return ChoiceJson(message, first, sent.columns);
  }

  void AppendJson(AnswerJson choice, std::string& out) const {
    head_.AppendEvent({{"choices", AnswerJson::array({std::move(choice)})}},
                      out);
  }

  ObjectHead head_;
  const bool logprobs_;
  const bool echo_;
  const bool prompt_logprobs_;
  const bool token_ids_;
  const bool include_usage_;
  UsageSum usage_;
  std::optional<v1::PromptOutput> prompt_;
  std::vector<v1::GenerateResponse> early_;  // Until the prompt has arrived.
  std::map<uint32_t, Sent> sent_;
  std::map<uint32_t, v1::GenerateComplete> complete_;  // Only if not streamed.
};

}  // namespace

std::unique_ptr<OpenAiAnswer::Writer> MakeCompletionsWriter(
    const OpenAiRequest& request, AnswerHead head) {
  return std::make_unique<CompletionsWriter>(request, std::move(head));
}

}  // namespace bole
