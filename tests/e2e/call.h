// One Generate call, as a client sees it.
#ifndef BOLE_TESTS_E2E_CALL_H_
#define BOLE_TESTS_E2E_CALL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/call_error.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "grpcpp/support/sync_stream.h"
#include "proto/bole.grpc.pb.h"
#include "proto/bole.pb.h"

namespace bole::e2e {

// What came back.
struct Generation {
  grpc::Status status;
  CallError error;         // Read from the status.
  std::string request_id;  // In every response.
  std::vector<v1::GenerateChunk> chunks;
  std::optional<v1::GenerateComplete> complete;

  // Taken from all chunks.
  std::vector<int32_t> chunk_ids() const;
  std::string chunk_text() const;
  std::vector<v1::TokenLogprob> chunk_logprobs() const;

  // Taken from the complete message.
  std::vector<int32_t> ids() const;
};

// Starts with its construction. One thread; Cancel() from any.
class Call {
 public:
  Call(v1::BoleService::Stub& stub, const v1::GenerateRequest& request,
       std::optional<std::chrono::milliseconds> timeout = std::nullopt);
  ~Call();  // Cancels what was not finished.

  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Reads one response, waiting for it. False at the end of the stream.
  bool Read();

  // Reads what is left.
  const Generation& Finish();

  void Cancel() { context_.TryCancel(); }

  // So far.
  const Generation& generation() const { return generation_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  Generation generation_;
  bool finished_ = false;
};

// A call from start to end.
Generation Generate(v1::BoleService::Stub& stub,
                    const v1::GenerateRequest& request);

// Greedy, and to its full length: `max_tokens` tokens whatever they are.
v1::GenerateRequest GreedyRequest(const std::string& text, int max_tokens);

}  // namespace bole::e2e

#endif  // BOLE_TESTS_E2E_CALL_H_
