// Generate calls, as a client sees them.
#ifndef BOLE_TESTS_E2E_CALL_H_
#define BOLE_TESTS_E2E_CALL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/sdk/call_error.h"
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

  // Takes a response. What the chunks had, the complete message must not have.
  void Add(v1::GenerateResponse response);

  // All output: that of the chunks, then that of the complete message.
  std::vector<int32_t> ids() const;
  std::string text() const;
  std::vector<v1::TokenLogprob> logprobs() const;
};

// Starts with its construction. One thread; Cancel() from any.
class Call {
 public:
  Call(v1::BoleService::Stub& stub, const v1::GenerateRequest& request,
       std::optional<std::chrono::milliseconds> timeout = std::nullopt,
       const std::string& tenant = "");
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

// A call for one choice from start to end.
Generation Generate(v1::BoleService::Stub& stub,
                    const v1::GenerateRequest& request);

// A call for several: what came of each, and every time how the call ended.
std::vector<Generation> GenerateChoices(v1::BoleService::Stub& stub,
                                        const v1::GenerateRequest& request);

// Greedy, and to its full length: `max_tokens` tokens whatever they are.
v1::GenerateRequest GreedyRequest(const std::string& text, int max_tokens);

}  // namespace bole::e2e

#endif  // BOLE_TESTS_E2E_CALL_H_
