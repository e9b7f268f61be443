// The gRPC server of both services, the scheduler and the worker.
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
  size_t max_message_bytes = 4 << 20;    // Received; sent ones are not bounded.
  size_t max_metadata_bytes = 16 << 10;  // For each call.
  int max_calls_per_connection = 1024;   // Further ones wait in the client.
  TlsFiles tls = {};
  CallGuard guard = nullptr;        // Consulted on every call. May be null.
  HandledCalls* handled = nullptr;  // Counts calls; must outlive the host. May
                                    // be null.
  // An address that serves grpc.health.v1 alone, to everybody who can reach it,
  // without TLS and without the guard. Empty: none.
  std::string health_address = {};
};

// Serves the given services, and in addition grpc.health.v1 and reflection, on
// which the guard is consulted too. Dead connections are noticed within 80
// seconds.
//
// Thread-safe.
class ServiceHost {
 public:
  // Starts to listen. The services must outlive the host. Besides the errors of
  // ParseListenAddress() and MakeServerCredentials(): UNAVAILABLE, naming the
  // address, if it cannot be bound, for example because it is in use.
  static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(
      const ServiceHostOptions& options,
      std::span<grpc::Service* const> services);
  ~ServiceHost();  // Shutdown() now.

  ServiceHost(const ServiceHost&) = delete;
  ServiceHost& operator=(const ServiceHost&) = delete;

  // The address on which it listens, with the actual port.
  const ListenAddress& address() const { return address_; }
  int health_port() const;  // 0: there is no health_address.

  // Sets what grpc.health.v1 reports for `service`, which it does not know
  // before the first call. The process, "", is reported as serving from the
  // start.
  void SetServing(const std::string& service, bool serving);

  // Reports not serving from now on, accepts no new calls, lets open calls end
  // until `deadline`, and then cancels them. Returns when all of them have
  // ended, so it must not be called from within one. Calling it again does
  // nothing.
  void Shutdown(std::chrono::steady_clock::time_point deadline);

 private:
  ServiceHost(std::unique_ptr<grpc::Server> server, ListenAddress address);

  const std::unique_ptr<grpc::Server> server_;
  const ListenAddress address_;
  std::unique_ptr<ServiceHost> health_;  // May be null. Set by Start() alone.
};

}  // namespace bole

#endif  // BOLE_COMMON_NET_SERVICE_HOST_H_
