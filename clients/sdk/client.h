// The SDK: a client of Bole's scheduler, over gRPC.
//
//   auto client = Client::Create({.address = "127.0.0.1:8400"});
//   auto stream = (*client)->Generate(TextRequest("Why is the sky blue?"));
//   for (const v1::GenerateResponse& response : *stream) {
//     std::cout << response.chunk().text();
//   }
//   if (!stream->status().ok()) ...ReadError(stream->status())...
//
// clients/sdk/examples has whole programs.
#ifndef BOLE_CLIENTS_SDK_CLIENT_H_
#define BOLE_CLIENTS_SDK_CLIENT_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "clients/sdk/async_generation.h"
#include "clients/sdk/client_options.h"
#include "clients/sdk/generate_stream.h"
#include "clients/sdk/server_channel.h"
#include "common/mutex.h"
#include "proto/bole.grpc.pb.h"
#include "proto/bole.pb.h"

namespace bole {

// Thread-safe. It outlives its streams.
//
// A request without a model gets the client's. Everything that can be requested
// is a field of the request (proto/bole.proto); requests.h makes the usual
// ones. Failures are statuses that ReadError() explains (call_error.h). Calls
// that fail before anything has arrived are retried, and streams that break are
// resumed, as RetryPolicy says: the caller sees one answer, with every token
// once. For that, a request without a seed is given one. Speculation and timing
// at the end of a resumed answer are those of its last call.
class Client {
 public:
  // Connects with the first call. INVALID_ARGUMENT, naming the option, if one
  // is invalid or a file cannot be read.
  static absl::StatusOr<std::unique_ptr<Client>> Create(
      const ClientOptions& options);
  // Cancels the calls of GenerateAsync() that have not ended, and waits for
  // them.
  ~Client();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Returns an answer for the caller to read. An error of the call is reported
  // by the stream at its end.
  std::unique_ptr<GenerateStream> Generate(v1::GenerateRequest request,
                                           const CallOptions& options = {});

  // Delivers an answer to `handlers`. The returned object can cancel the call
  // and need not be kept.
  std::shared_ptr<AsyncGeneration> GenerateAsync(
      v1::GenerateRequest request, GenerateHandlers handlers,
      const CallOptions& options = {});

  absl::StatusOr<v1::TokenizeResponse> Tokenize(
      v1::TokenizeRequest request, const CallOptions& options = {});
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(
      v1::DetokenizeRequest request, const CallOptions& options = {});
  absl::StatusOr<v1::ListModelsResponse> ListModels(
      const CallOptions& options = {});
  absl::StatusOr<v1::GetModelInfoResponse> GetModelInfo(
      v1::GetModelInfoRequest request = {}, const CallOptions& options = {});
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(
      const CallOptions& options = {});

  // These call the service v1::Admin, whose scope a token needs.
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers(
      const CallOptions& options = {});
  absl::StatusOr<v1::GetLoadResponse> GetLoad(const CallOptions& options = {});
  absl::StatusOr<v1::AuditResponse> Audit(const CallOptions& options = {});
  absl::StatusOr<v1::DumpRoundsResponse> DumpRounds(
      const CallOptions& options = {});

  // For stubs of other services, such as grpc.health.v1: Prepare() gives each
  // call what it needs.
  const ServerChannel& channel() const { return channel_; }

 private:
  Client(const ClientOptions& options, ServerChannel channel);

  std::optional<Generation::TimePoint> DeadlineOf(
      const CallOptions& options) const;
  Generation Begin(v1::GenerateRequest request, const CallOptions& options,
                   std::optional<Generation::TimePoint> deadline) const;

  template <typename Response, typename Stub, typename Method, typename Request>
  absl::StatusOr<Response> Unary(Stub& stub, Method method, Request request,
                                 const CallOptions& options);

  void OnEnded(AsyncGeneration* ended);

  const ClientOptions options_;
  const ServerChannel channel_;
  const std::unique_ptr<v1::BoleService::Stub> bole_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
  Mutex mutex_;
  CondVar changed_;
  std::map<AsyncGeneration*, std::shared_ptr<AsyncGeneration>> open_
      ABSL_GUARDED_BY(mutex_);
  // The calls in open_, and those that are being destroyed.
  int num_open_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_CLIENT_H_
