// A worker as a process runs it: model, engine, compute loop, gRPC, metrics.
#ifndef BOLE_WORKER_SERVICE_SERVING_WORKER_SERVER_H_
#define BOLE_WORKER_SERVICE_SERVING_WORKER_SERVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/flight/flight_recorder.h"
#include "common/net/http/otlp_exporter.h"
#include "common/net/listen_address.h"
#include "common/net/pem_files.h"
#include "common/step.h"
#include "worker_service/ranks/ranked_model.h"

namespace bole {

// A GPU that gives no result for this long is considered to hang. The first
// steps load kernels and capture graphs, which takes seconds.
inline constexpr std::chrono::milliseconds kGpuStepTimeout{60'000};

struct WorkerServerOptions {
  RankedModelOptions model;
  std::string address = "127.0.0.1:0";  // Port 0: any that is free.
  std::string metrics_address;          // Empty: no metrics.
  // An address that serves grpc.health.v1 alone, to everybody. Empty: none.
  std::string health_address;
  TlsFiles tls;                    // For the first two addresses.
  Reach reach = Reach::kLoopback;  // For the same two.
  std::chrono::milliseconds heartbeat_interval{1000};
  // As WorkerServiceOptions::scheduler_timeout.
  std::chrono::milliseconds scheduler_timeout{5000};
  // As ComputeLoopOptions::step_timeout; 0: no limit. If left out,
  // kGpuStepTimeout on a GPU, and no limit on a CPU, which may compute for
  // minutes.
  std::optional<std::chrono::milliseconds> step_timeout = std::nullopt;
  std::string record_path;  // Empty: nothing is recorded.
  // As ComputeLoopOptions::flight, and for bole.v1.Admin; outlives the server.
  FlightRecorder* flight = nullptr;
  OtlpCollector collector;  // Receives the spans of sampled requests.
  // A file for LoadCostTable(), measured with this worker. Empty: none is
  // loaded.
  std::string cost_table_path;
  // Receives messages for people: about the model, a recording that ends, and a
  // collector that fails. May be null.
  std::function<void(const std::string&)> note = {};
  // Called once, on a thread of the server, if the engine fails or hangs or a
  // rank's process ends; by then the failure is counted, health says
  // NOT_SERVING and the scheduler has been told. The process should end without
  // destructors: Stop() and the destructor wait for the step, which may never
  // end.
  std::function<void(const absl::Status& why)> on_failure = {};
};

// Serves from Start() to Stop(). Thread-safe.
class WorkerServer {
 public:
  // Loads the model and starts to listen. Errors say what cannot be read, what
  // does not fit, what a cost table was measured with instead of this worker,
  // which address cannot be bound, or, before anything is loaded, that
  // `record_path` cannot be written.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(
      const WorkerServerOptions& options);
  // The same with a model that the caller has loaded with `options.model`.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> StartWith(
      std::unique_ptr<RankedModel> model, const WorkerServerOptions& options);
  ~WorkerServer();  // Stop(). Destroys the model.

  WorkerServer(const WorkerServer&) = delete;
  WorkerServer& operator=(const WorkerServer&) = delete;

  // The address on which it listens, with the port that was chosen.
  const ListenAddress& address() const;
  int port() const { return address().port; }
  int metrics_port() const;  // 0: no metrics.
  int health_port() const;   // 0: there is no health_address.

  const RankedModel& model() const;

  // Reports not serving, asks the scheduler to send no new requests, and waits
  // until the scheduler has closed its stream, until `deadline`, or until
  // Stop(). Returns whether the scheduler has closed its stream.
  bool Drain(std::chrono::steady_clock::time_point deadline);

  // Ends the stream, finishes the running step, and stops listening.
  void Stop();

 private:
  struct Parts;
  explicit WorkerServer(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_WORKER_SERVER_H_
