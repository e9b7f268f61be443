#include "scheduler_service/door/grpc/response_codec.h"

#include <cstdint>
#include <utility>
#include <variant>

#include "common/check.h"

namespace bole {
namespace {

v1::TokenLogprob Encode(const EmittedToken& token) {
  v1::TokenLogprob message;
  message.set_token_id(token.token);
  message.set_logprob(token.logprob);
  for (const TokenLogprob& other : token.top) {
    v1::TopLogprob& top = *message.add_top();
    top.set_token_id(other.token);
    top.set_logprob(other.logprob);
  }
  return message;
}

void EncodeEnd(const Completion& completion, v1::GenerateComplete& message) {
  message.set_finish_reason(v1::FINISH_REASON_STOP);
  if (const auto* token = std::get_if<int32_t>(&completion.matched)) {
    message.set_matched_token_id(*token);
  } else if (const auto* text = std::get_if<std::string>(&completion.matched)) {
    message.set_matched_stop_str(*text);
  } else {
    message.set_finish_reason(v1::FINISH_REASON_LENGTH);
  }
  message.mutable_speculation()->set_rounds(completion.rounds);
  message.mutable_speculation()->set_accepted_drafts(
      completion.accepted_drafts);
  message.mutable_timing()->set_queue_seconds(completion.queue_seconds);
  message.mutable_timing()->set_first_token_seconds(
      completion.first_token_seconds);
  message.mutable_timing()->set_total_seconds(completion.total_seconds);
}

}  // namespace

ResponseEncoder::ResponseEncoder(const Request& request)
    : id_(request.id),
      logprobs_(request.sampling.logprobs),
      num_resumed_(static_cast<int>(request.resumed.size())) {
  all_.mutable_usage()->set_prompt_tokens(
      static_cast<uint32_t>(request.prompt.size()));
  all_.set_seed(request.sampling.seed);
}

v1::GenerateResponse ResponseEncoder::Response() const {
  v1::GenerateResponse response;
  response.set_request_id(id_);
  return response;
}

v1::GenerateResponse ResponseEncoder::Add(const TokenDelta& delta) {
  v1::GenerateResponse response = Response();
  v1::GenerateChunk& chunk = *response.mutable_chunk();
  for (const EmittedToken& token : delta.tokens) {
    chunk.add_token_ids(token.token);
    if (logprobs_) *chunk.add_output_logprobs() = Encode(token);
  }
  chunk.set_text(delta.text);

  all_.mutable_output_ids()->MergeFrom(chunk.token_ids());
  if (logprobs_) {
    v1::GenerateComplete part;
    part.mutable_output_logprobs()->Swap(chunk.mutable_output_logprobs());
    BOLE_CHECK(part.AppendToString(&encoded_logprobs_));
    part.mutable_output_logprobs()->Swap(chunk.mutable_output_logprobs());
  }
  all_.mutable_text()->append(delta.text);
  all_.mutable_usage()->set_completion_tokens(num_resumed_ +
                                              all_.output_ids_size());
  *chunk.mutable_usage() = all_.usage();
  return response;
}

v1::GenerateResponse ResponseEncoder::Complete(const Completion& completion) {
  v1::GenerateResponse response = Response();
  EncodeEnd(completion, all_);
  BOLE_CHECK(all_.MergeFromString(std::exchange(encoded_logprobs_, {})));
  *response.mutable_complete() = std::move(all_);
  return response;
}

size_t ResponseEncoder::kept_bytes() const {
  return all_.output_ids().Capacity() * sizeof(uint32_t) +
         all_.text().capacity() + encoded_logprobs_.capacity();
}

}  // namespace bole
