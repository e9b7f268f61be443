#include "tests/e2e/call.h"

#include <utility>

#include "common/check.h"
#include "gtest/gtest.h"

namespace bole::e2e {

std::vector<int32_t> Generation::chunk_ids() const {
  std::vector<int32_t> ids;
  for (const v1::GenerateChunk& chunk : chunks) {
    ids.insert(ids.end(), chunk.token_ids().begin(), chunk.token_ids().end());
  }
  return ids;
}

std::string Generation::chunk_text() const {
  std::string text;
  for (const v1::GenerateChunk& chunk : chunks) text += chunk.text();
  return text;
}

std::vector<v1::TokenLogprob> Generation::chunk_logprobs() const {
  std::vector<v1::TokenLogprob> logprobs;
  for (const v1::GenerateChunk& chunk : chunks) {
    logprobs.insert(logprobs.end(), chunk.output_logprobs().begin(),
                    chunk.output_logprobs().end());
  }
  return logprobs;
}

std::vector<int32_t> Generation::ids() const {
  BOLE_CHECK(complete.has_value());
  return {complete->output_ids().begin(), complete->output_ids().end()};
}

Call::Call(v1::BoleService::Stub& stub, const v1::GenerateRequest& request,
           std::optional<std::chrono::milliseconds> timeout) {
  if (timeout) {
    context_.set_deadline(std::chrono::system_clock::now() + *timeout);
  }
  reader_ = stub.Generate(&context_, request);
}

Call::~Call() {
  if (finished_) return;
  Cancel();
  Finish();
}

bool Call::Read() {
  v1::GenerateResponse response;
  if (!reader_->Read(&response)) return false;
  EXPECT_FALSE(response.request_id().empty());
  if (!generation_.request_id.empty()) {
    EXPECT_EQ(response.request_id(), generation_.request_id);
  }
  EXPECT_FALSE(generation_.complete.has_value()) << "something after the end";
  generation_.request_id = response.request_id();
  if (response.has_chunk()) {
    generation_.chunks.push_back(std::move(*response.mutable_chunk()));
  } else if (response.has_complete()) {
    generation_.complete = std::move(*response.mutable_complete());
  } else {
    ADD_FAILURE() << "a response without content";
  }
  return true;
}

const Generation& Call::Finish() {
  if (finished_) return generation_;
  while (Read()) {
  }
  generation_.status = reader_->Finish();
  finished_ = true;
  generation_.error = ReadError(generation_.status);
  // The other way round, a call may be cancelled after its last message.
  EXPECT_TRUE(!generation_.status.ok() || generation_.complete.has_value());
  return generation_;
}

Generation Generate(v1::BoleService::Stub& stub,
                    const v1::GenerateRequest& request) {
  return Call(stub, request).Finish();
}

v1::GenerateRequest GreedyRequest(const std::string& text, int max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  sampling.set_temperature(0);
  sampling.set_ignore_eos(true);
  sampling.set_max_tokens(max_tokens);
  return request;
}

}  // namespace bole::e2e
