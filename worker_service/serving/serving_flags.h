// Command-line flags of programs that serve a worker's protocol.
#ifndef BOLE_WORKER_SERVICE_SERVING_SERVING_FLAGS_H_
#define BOLE_WORKER_SERVICE_SERVING_SERVING_FLAGS_H_

#include <chrono>
#include <string>

#include "common/command_line.h"
#include "common/net/http/otlp_exporter.h"
#include "common/net/listen_address.h"
#include "common/net/pem_files.h"

namespace bole {

// Where a worker listens and sends its spans, how often it sends a heartbeat,
// and how long it waits for its scheduler before it ends.
struct ServingFlags {
  std::string address = "127.0.0.1:50052";
  std::string metrics_address;  // Empty: there is no metrics endpoint.
  int heartbeat_ms = 1000;
  int scheduler_timeout_ms = 5000;
  int drain_seconds = 30;
  TlsFiles tls;
  std::string health_address;  // Empty: there is none for health alone.
  bool allow_remote = false;
  OtlpCollector collector;

  void AddTo(CommandLine& app);

  // From where the addresses for the scheduler and for metrics may be reached.
  // Without client certificates, the worker obeys everybody who can reach the
  // first.
  Reach reach() const {
    const bool knows_clients = !tls.empty() && !tls.client_ca.empty();
    return allow_remote || knows_clients ? Reach::kAnywhere : Reach::kLoopback;
  }
  std::chrono::milliseconds heartbeat_interval() const {
    return std::chrono::milliseconds(heartbeat_ms);
  }
  std::chrono::milliseconds scheduler_timeout() const {
    return std::chrono::milliseconds(scheduler_timeout_ms);
  }
  std::chrono::seconds drain_time() const {
    return std::chrono::seconds(drain_seconds);
  }
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_SERVING_FLAGS_H_
