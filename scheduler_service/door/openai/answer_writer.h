// What the writers of OpenAI's three kinds of answers have in common.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_ANSWER_WRITER_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_ANSWER_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "google/protobuf/repeated_field.h"
#include "nlohmann/json.hpp"
#include "proto/bole.pb.h"
#include "scheduler_service/door/openai/openai_answer.h"

namespace bole {

// The methods are those of OpenAiAnswer.
class OpenAiAnswer::Writer {
 public:
  virtual ~Writer() = default;
  virtual void AppendEvents(const v1::GenerateResponse& response,
                            std::string& out) = 0;
  virtual void AppendEnd(std::string& out) = 0;
  virtual void AppendError(const OpenAiError& error, std::string& out);
  virtual void Add(const v1::GenerateResponse& response) = 0;
  virtual std::string Whole() const = 0;
};

struct AnswerHead {
  std::string id;
  int64_t created;  // Unix time in seconds.
};

std::unique_ptr<OpenAiAnswer::Writer> MakeChatWriter(
    const OpenAiRequest& request, AnswerHead head);
std::unique_ptr<OpenAiAnswer::Writer> MakeCompletionsWriter(
    const OpenAiRequest& request, AnswerHead head);
std::unique_ptr<OpenAiAnswer::Writer> MakeResponsesWriter(
    const OpenAiRequest& request, AnswerHead head);

using AnswerJson = nlohmann::ordered_json;
using TokenLogprobs = google::protobuf::RepeatedPtrField<v1::TokenLogprob>;

// Serializes the JSON. What is not UTF-8 becomes U+FFFD.
std::string ToText(const AnswerJson& json);

// The members with which each object of chat and of completions begins: {"id",
// "object", "created", "model", "system_fingerprint"}. A stream has an event
// for each round of a request, so they are converted to text only once.
class ObjectHead {
 public:
  ObjectHead(AnswerHead head, std::string object)
      : head_(std::move(head)), object_(std::move(object)) {}

  void set_model(const std::string& model);
  AnswerJson ToJson() const;
  // Appends an event with the head and `members`, an object that is not empty.
  void AppendEvent(const AnswerJson& members, std::string& out) const;

 private:
  const AnswerHead head_;
  const std::string object_;
  std::string model_;
  std::string begin_;  // An event up to its first member.
};

// JSON has no infinities: a token that cannot be drawn has -9999.
double FiniteLogprob(float logprob);

// The token ids of a message, as an array.
AnswerJson TokenIdsJson(const v1::GenerateChunk& chunk);
AnswerJson TokenIdsJson(const v1::GenerateComplete& complete);

// [{"token", "logprob", "bytes", "top_logprobs"}]
AnswerJson TokenLogprobsJson(const TokenLogprobs& logprobs);

// [null, {"ID": {"logprob", "decoded_token"}}, ...]: each token of a prompt and
// the likeliest ones at its position. The first token has none.
AnswerJson PromptLogprobsJson(const v1::PromptOutput& prompt);

// The usage of all choices of an answer. The prompt counts once.
class UsageSum {
 public:
  void Add(uint32_t choice, const v1::Usage& usage) {
    choices_[choice] = usage;
  }
  uint32_t prompt_tokens() const;
  uint32_t completion_tokens() const;
  uint32_t cached_tokens() const;  // The first choice's.
  // {"prompt_tokens", "completion_tokens", "total_tokens",
  // "prompt_tokens_details"}
  AnswerJson ToJson() const;

 private:
  std::map<uint32_t, v1::Usage> choices_;
};

// "stop" or "length".
const char* FinishReasonName(v1::FinishReason reason);
// The stop token or string that a choice ended with, or null.
AnswerJson StopReasonJson(const v1::GenerateComplete& complete);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_ANSWER_WRITER_H_
