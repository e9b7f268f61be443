// Encodes one choice's output as messages of bole.v1.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_RESPONSE_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_RESPONSE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/chat/output/output_format.h"
#include "common/chat/output/output_parser.h"
#include "common/tokenizer/tokenizer.h"
#include "proto/bole.pb.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"

namespace bole {

// What the messages of one call have in common. The references outlive them.
struct AnswerOptions {
  const std::string& model;
  const Tokenizer& tokenizer;
  // Output is sent in chunks; or else all of it in the complete message.
  bool chunks = true;
};

// What is specific to the messages of one choice.
struct ChoiceOptions {
  // The text of the prompt, if the answer is to include it.
  std::optional<std::string> echo = std::nullopt;
  // How the text is parsed; null: it is not. Shared by the choices.
  std::shared_ptr<const OutputFormat> output = nullptr;
};

// Turns the deltas of a stream into chunks, for which it keeps only what a
// parser holds back, or into a complete message, for which it keeps everything.
// The parser has already seen the text of the resumed output, so that it
// continues where the client is. Not thread-safe.
class ResponseEncoder {
 public:
  // The first message includes the prompt's token ids, its text and its log
  // probabilities if the prompt's text is to be echoed or its log probabilities
  // were requested.
  ResponseEncoder(const Request& request, const AnswerOptions& options,
                  ChoiceOptions choice = {});

  // Whether a message is due for `delta`: it has output, or is the end of a
  // text of which something is held back.
  bool HasOutput(const TokenDelta& delta) const;

  // Returns a chunk with the output of `delta`, and with all that is held back
  // if `delta` has the completion; nothing if output is not sent in chunks.
  std::optional<v1::GenerateResponse> Add(const TokenDelta& delta);

  // The last message. Call it once. COST: linear in what was kept.
  v1::GenerateResponse Complete(const Completion& completion);

  // The usage of the choice by the deltas that were added so far.
  const v1::Usage& usage() const { return usage_; }

  // The approximate memory of what Add() kept: 4 bytes for a token, its text,
  // and the encoded log probabilities; and of what a parser holds back.
  size_t kept_bytes() const;

 private:
  v1::GenerateResponse Response() const;
  void Keep(const TokenDelta& delta);
  // Adds the text of `delta`, parsed if there is a parser.
  template <typename Message>
  void AddText(const TokenDelta& delta, Message& message);
  template <typename Message>
  void AddParsed(OutputDelta parsed, Message& message) const;
  // Adds the log probabilities of `delta`, and the prompt's output if it was
  // not sent yet, to a chunk or complete message.
  template <typename Message>
  void AddLogprobsAndPrompt(const TokenDelta& delta, Message& message);

  const AnswerOptions options_;
  const std::string id_;
  const uint32_t choice_;
  const uint64_t seed_;
  const bool logprobs_;
  std::optional<OutputParser> parser_;
  v1::Usage usage_;
  std::optional<v1::PromptOutput> prompt_;  // Until it was sent.
  v1::GenerateComplete kept_;               // Tokens and text.
  // The rest, encoded as a GenerateComplete: log probabilities would take five
  // times as much memory as messages.
  std::string encoded_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_RESPONSE_CODEC_H_
