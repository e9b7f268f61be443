// A simulated worker as a process runs it.
#ifndef BOLE_TESTS_SIMULATION_SIMULATED_SERVER_H_
#define BOLE_TESTS_SIMULATION_SIMULATED_SERVER_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/net/http/otlp_exporter.h"
#include "common/net/listen_address.h"
#include "common/net/pem_files.h"
#include "tests/simulation/step_runner.h"

namespace bole::simulation {

struct SimulatedServerOptions {
  std::string model = "simulated";      // The name that it describes itself by.
  std::string address = "127.0.0.1:0";  // Port 0: any that is free.
  std::string metrics_address = {};     // Empty: no metrics.
  std::string health_address = {};      // Empty: none for health alone.
  TlsFiles tls = {};                    // For the first two addresses.
  OtlpCollector collector = {};         // Gets spans; empty: none are kept.
  Reach reach = Reach::kLoopback;       // For the same.
  std::chrono::milliseconds heartbeat_interval{1000};
  // As WorkerServiceOptions::scheduler_timeout.
  std::chrono::milliseconds scheduler_timeout{5000};
  StepRunnerOptions runner;
  // Whether the scheduler is told of runner.costs, as of a calibrated worker's.
  bool tells_costs = false;
};

// The service of a real worker, WorkerService, with a StepRunner behind it:
// streams, epochs, heartbeats, drains and metrics are those of bole-worker. By
// default requests are greedy, so that a client who asks for nothing knows what
// to expect.
//
// Serves from Start() to Stop(). Thread-safe.
class SimulatedServer {
 public:
  // INVALID_ARGUMENT as Validate(options.runner.engine), and the errors of
  // ServiceHost::Start() and MetricsEndpoint::Start().
  static absl::StatusOr<std::unique_ptr<SimulatedServer>> Start(
      const SimulatedServerOptions& options);
  ~SimulatedServer();  // Stop().

  SimulatedServer(const SimulatedServer&) = delete;
  SimulatedServer& operator=(const SimulatedServer&) = delete;

  // Where it listens, the port being the real one.
  const ListenAddress& address() const;
  int metrics_port() const;  // 0: no metrics.
  int health_port() const;   // 0: none that is for health alone.

  // As WorkerServer::Drain().
  bool Drain(std::chrono::steady_clock::time_point deadline);

  // Ends the stream, leaves the round that waits, and listens no more.
  void Stop();

 private:
  struct Parts;
  explicit SimulatedServer(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_SIMULATED_SERVER_H_
