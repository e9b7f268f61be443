#include "clients/bench/grpc_transport.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>

#include "clients/sdk/call_error.h"
#include "common/check.h"

namespace bole::bench {
namespace {

class GrpcCall final : public TransportCall {
 public:
  explicit GrpcCall(std::shared_ptr<AsyncGeneration> generation)
      : generation_(std::move(generation)) {}

  void Cancel() override { generation_->Cancel(); }

 private:
  const std::shared_ptr<AsyncGeneration> generation_;
};

CallEnd EndOf(const absl::Status& status) {
  CallError error = ReadError(status);
  CallEnd end{.status = status, .reason = std::move(error.reason)};
  if (error.retry_after) {
    end.retry_after_seconds =
        std::chrono::duration<double>(*error.retry_after).count();
  }
  return end;
}

}  // namespace

GrpcTransport::GrpcTransport(std::vector<std::shared_ptr<Client>> clients)
    : clients_(std::move(clients)) {
  BOLE_CHECK(!clients_.empty());
}

std::shared_ptr<TransportCall> GrpcTransport::Send(
    v1::GenerateRequest request, std::optional<double> timeout_seconds,
    CallHandlers handlers) {
  // The schedule tries again, so that the wait is no call's.
  CallOptions options{.retry =
                          RetryPolicy{.max_attempts = 1, .max_resumes = 0}};
  if (timeout_seconds) {
    options.timeout = std::chrono::milliseconds(
        static_cast<int64_t>(std::ceil(*timeout_seconds * 1000)));
  }
  Client& client = *clients_[next_client_++ % clients_.size()];
  return std::make_shared<GrpcCall>(client.GenerateAsync(
      std::move(request),
      {.on_event = std::move(handlers.on_response),
       .on_done =
           [on_end = std::move(handlers.on_end)](
               const absl::Status& status, const GenerationStats& /*stats*/) {
             on_end(EndOf(status));
           }},
      options));
}

}  // namespace bole::bench
