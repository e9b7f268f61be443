// bole.v1 over gRPC, through the SDK.
#ifndef BOLE_CLIENTS_BENCH_GRPC_TRANSPORT_H_
#define BOLE_CLIENTS_BENCH_GRPC_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "clients/bench/transport.h"
#include "clients/sdk/client.h"

namespace bole::bench {

// gRPC's own threads, at most one per core, drive the calls; a call costs only
// memory.
class GrpcTransport final : public Transport {
 public:
  // Calls are spread over `clients`, at least one, in turn.
  explicit GrpcTransport(std::vector<std::shared_ptr<Client>> clients);

  std::shared_ptr<TransportCall> Send(v1::GenerateRequest request,
                                      std::optional<double> timeout_seconds,
                                      CallHandlers handlers) override;
  bool resumes() const override { return true; }

 private:
  const std::vector<std::shared_ptr<Client>> clients_;
  std::atomic<size_t> next_client_{0};
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_GRPC_TRANSPORT_H_
