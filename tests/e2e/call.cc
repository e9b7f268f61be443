#include "tests/e2e/call.h"

#include <utility>

#include "gtest/gtest.h"

namespace bole::e2e {

void Generation::Add(v1::GenerateResponse response) {
  EXPECT_FALSE(response.request_id().empty());
  EXPECT_FALSE(response.model().empty());
  if (!request_id.empty()) {
    EXPECT_EQ(response.request_id(), request_id);
  }
  request_id = response.request_id();
  EXPECT_FALSE(complete.has_value()) << "something after the end";
  if (response.has_chunk()) {
    chunks.push_back(std::move(*response.mutable_chunk()));
  } else if (response.has_complete()) {
    complete = std::move(*response.mutable_complete());
    if (chunks.empty()) return;
    EXPECT_EQ(complete->output_ids_size(), 0);
    EXPECT_EQ(complete->text(), "");
    EXPECT_EQ(complete->output_logprobs_size(), 0);
  } else {
    ADD_FAILURE() << "a response without content";
  }
}

std::vector<int32_t> Generation::ids() const {
  std::vector<int32_t> ids;
  for (const v1::GenerateChunk& chunk : chunks) {
    ids.insert(ids.end(), chunk.token_ids().begin(), chunk.token_ids().end());
  }
  if (complete) {
    ids.insert(ids.end(), complete->output_ids().begin(),
               complete->output_ids().end());
  }
  return ids;
}

std::string Generation::text() const {
  std::string text;
  for (const v1::GenerateChunk& chunk : chunks) text += chunk.text();
  return complete ? text + complete->text() : text;
}

std::vector<v1::TokenLogprob> Generation::logprobs() const {
  std::vector<v1::TokenLogprob> logprobs;
  for (const v1::GenerateChunk& chunk : chunks) {
    logprobs.insert(logprobs.end(), chunk.output_logprobs().begin(),
                    chunk.output_logprobs().end());
  }
  if (complete) {
    logprobs.insert(logprobs.end(), complete->output_logprobs().begin(),
                    complete->output_logprobs().end());
  }
  return logprobs;
}

Call::Call(v1::BoleService::Stub& stub, const v1::GenerateRequest& request,
           std::optional<std::chrono::milliseconds> timeout,
           const std::string& tenant) {
  if (!tenant.empty()) context_.AddMetadata("bole-tenant", tenant);
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
  generation_.Add(std::move(response));
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

std::vector<Generation> GenerateChoices(v1::BoleService::Stub& stub,
                                        const v1::GenerateRequest& request) {
  std::vector<Generation> choices(request.n());
  grpc::ClientContext context;
  const auto reader = stub.Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    const uint32_t index = response.has_chunk() ? response.chunk().index()
                                                : response.complete().index();
    choices.at(index).Add(std::move(response));
  }
  const grpc::Status status = reader->Finish();
  for (Generation& choice : choices) choice.status = status;
  return choices;
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
