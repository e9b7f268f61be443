// The whole scheduler of a process: text, loop, worker client, gRPC, metrics.
#ifndef BOLE_SCHEDULER_SERVICE_SCHEDULER_SERVER_H_
#define BOLE_SCHEDULER_SERVICE_SCHEDULER_SERVER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/net/client_credentials.h"
#include "common/net/listen_address.h"
#include "common/net/pem_files.h"
#include "scheduler_service/door/door_limits.h"
#include "scheduler_service/links/share.h"
#include "scheduler_service/scheduler.h"
#include "scheduler_service/scheduler_loop.h"
#include "scheduler_service/watch/request_watcher.h"

namespace bole {

struct SchedulerServerOptions {
  // As ModelCatalog::Load() has them. At least one.
  std::vector<std::string> models = {};
  bool allow_synthetic = false;         // Accept workers with made-up weights.
  std::string address = "127.0.0.1:0";  // Port 0: any that is free.
  std::string http_address = {};        // Empty: no HTTP.
  std::string metrics_address = {};     // Empty: no metrics.
  bool vllm_metric_names = false;       // Also export those of VllmNames.
  Reach reach = Reach::kLoopback;       // For these three addresses.
  // As WorkerPoolOptions has them. At least one.
  std::vector<std::string> workers = {};
  // How the workers are shared with other schedulers: by `peers`, which are as
  // PeerGroupOptions has them, or by `share`. At most one of the two is set.
  // Without both, this scheduler uses all workers.
  std::vector<std::string> peers = {};
  std::optional<Place> share = std::nullopt;
  // Called by several threads with messages on which workers are connected,
  // claimed and given back. May be null.
  std::function<void(const std::string&)> note = nullptr;
  SchedulerOptions scheduler = {};
  // A worker that is silent for this long counts as lost.
  std::chrono::milliseconds worker_timeout{10000};
  DoorLimits door = {};
  size_t max_http_connections = 4096;
  size_t max_http_bodies_bytes = 256 << 20;  // Sum over the bodies being read.
  size_t max_message_bytes = 4 << 20;        // The longest message of a client.
  TlsFiles tls = {};                         // For the three addresses.
  // As AccessOptions has it; empty: every client may do everything.
  std::string tokens_path = {};
  WatchOptions watch = {};  // Traces and log of requests.
  TlsClientFiles worker_tls = {};
  TlsClientFiles peer_tls = {};
  std::string peer_token_path = {};  // For BearerToken; empty: none.
  // Serves only grpc.health.v1, to every client; empty: none.
  std::string health_address = {};
};

// Serves from Start() to Stop(). Thread-safe.
class SchedulerServer {
 public:
  // Does not wait for the workers. Errors name what cannot be read, or the
  // address that cannot be bound.
  static absl::StatusOr<std::unique_ptr<SchedulerServer>> Start(
      const SchedulerServerOptions& options);
  ~SchedulerServer();  // Stop().

  SchedulerServer(const SchedulerServer&) = delete;
  SchedulerServer& operator=(const SchedulerServer&) = delete;

  // Where it listens, with the actual port.
  const ListenAddress& address() const;
  int port() const { return address().port; }
  int http_port() const;     // 0: no HTTP.
  int metrics_port() const;  // 0: no metrics.
  int health_port() const;   // 0: no separate health port.
  SchedulerLoop& loop();

  // Reports that it is not serving, refuses new requests, and waits until the
  // current ones have ended and their clients have received all output, but no
  // longer than until `deadline` or Stop(). Returns whether all have. Shared
  // workers are given back one by one, as soon as nothing runs on them.
  bool Drain(std::chrono::steady_clock::time_point deadline);

  // Ends every request with UNAVAILABLE, and stops listening. Output that
  // clients have not received within a second is lost.
  void Stop();

 private:
  struct Parts;
  explicit SchedulerServer(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SCHEDULER_SERVER_H_
