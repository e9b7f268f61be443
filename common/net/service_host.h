// A gRPC server as both services run it.
#ifndef BOLE_COMMON_NET_SERVICE_HOST_H_
#define BOLE_COMMON_NET_SERVICE_HOST_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/net/handled_calls.h"
#include "common/net/listen_address.h"
#include "common/net/pem_files.h"
#include "common/net/server_credentials.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "grpcpp/server.h"

namespace bole {

struct ServiceHostOptions {
  std::string address = "127.0.0.1:0";  // As ParseListenAddress() reads it.
  Reach reach = Reach::kLoopback;
  size_t max_message_bytes = 4 << 20;  // Received; what is sent is not bounded.
  size_t max_metadata_bytes = 16 << 10;  // For each call.
  int max_calls_per_connection = 1024;   // More wait at the client.
  TlsFiles tls = {};
  CallGuard guard = nullptr;        // Asked about every call. May be null.
  HandledCalls* handled = nullptr;  // Counts calls. May be null; outlives it.
  // Of grpc.health.v1 alone, which everybody who reaches it may ask, without
  // TLS and without the guard; empty: none.
  std::string health_address = {};
};

// Serves some services, and beside them grpc.health.v1 and reflection, which
// the guard is asked about too. Connections that go dead are noticed within 80
// s.
//
// Thread-safe.
class ServiceHost {
 public:
  // Listens. The services must outlive the host. Besides the errors of
  // ParseListenAddress() and MakeServerCredentials(): UNAVAILABLE, naming the
  // address, if it cannot be bound, because it is taken for one.
  static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(
      const ServiceHostOptions& options,
      std::span<grpc::Service* const> services);
  ~ServiceHost();  // Shutdown() now.

  ServiceHost(const ServiceHost&) = delete;
  ServiceHost& operator=(const ServiceHost&) = delete;

  // Where it listens, the port being the real one.
  const ListenAddress& address() const { return address_; }
  int health_port() const;  // 0: none that is for health alone.

  // What grpc.health.v1 says of `service`. Before the first call it does not
  // know it; "", the process, serves from the start.
  void SetServing(const std::string& service, bool serving);

  // Reports not serving for good, takes no new calls, lets those there are end
  // until `deadline`, then cancels them. Returns when all of them are gone, so
  // it must not be called from one. Later calls do nothing.
  void Shutdown(std::chrono::steady_clock::time_point deadline);

 private:
  ServiceHost(std::unique_ptr<grpc::Server> server, ListenAddress address);

  const std::unique_ptr<grpc::Server> server_;
  const ListenAddress address_;
  std::unique_ptr<ServiceHost> health_;  // May be null. Set by Start() alone.
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_SERVICE_HOST_H_
