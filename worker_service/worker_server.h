// A worker as a process runs it: model, engine, compute loop, gRPC, metrics.
#ifndef BOLE_WORKER_SERVICE_WORKER_SERVER_H_
#define BOLE_WORKER_SERVICE_WORKER_SERVER_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker_service/engine.h"

namespace bole {

struct WorkerServerOptions {
  std::string model_directory;
  std::string address = "127.0.0.1:0";  // Port 0: any that is free.
  std::string metrics_address;          // Empty: no metrics.
  int num_threads = 0;                  // 0: one for each processor.
  // num_valid_tokens comes from the checkpoint.
  EngineOptions engine;
  std::chrono::milliseconds heartbeat_interval{1000};
  std::string record_path;  // Empty: nothing is recorded.
};

// Serves from Start() to Stop(). Thread-safe.
class WorkerServer {
 public:
  // Loads the model and listens. Errors say what cannot be read, what does not
  // fit, or which address cannot be bound.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(
      const WorkerServerOptions& options);
  ~WorkerServer();  // Stop().

  WorkerServer(const WorkerServer&) = delete;
  WorkerServer& operator=(const WorkerServer&) = delete;

  int port() const;
  int metrics_port() const;  // 0: no metrics.

  // Asks the scheduler to send no new requests, and waits until it has closed
  // its stream, or until `deadline`. Returns whether it has.
  bool Drain(std::chrono::steady_clock::time_point deadline);

  // Ends the stream, finishes the step that runs, and frees everything.
  void Stop();

 private:
  struct Parts;
  explicit WorkerServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_WORKER_SERVER_H_
