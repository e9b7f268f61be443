// A worker as a process, from its start to its exit status.
#ifndef BOLE_WORKER_SERVICE_SERVING_WORKER_PROCESS_H_
#define BOLE_WORKER_SERVICE_SERVING_WORKER_PROCESS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/log/log.h"
#include "common/termination.h"
#include "worker_service/serving/worker_server.h"

namespace bole {

struct WorkerProcessOptions {
  WorkerServerOptions server;  // Its on_failure is replaced.
  // How long the scheduler has to leave after the first signal.
  std::chrono::seconds drain_time{30};
  // The folder for files of the last rounds (FlightLogOptions); empty: none.
  std::string flight_folder = {};
  LogFormat log_format = LogFormat::kText;  // On standard error.
};

// WorkerServer::Start, or another function that makes a server with these
// options.
using StartWorker = std::function<absl::StatusOr<std::unique_ptr<WorkerServer>>(
    const WorkerServerOptions& options)>;

// Starts a server, prints on stdout where it listens, and serves until a signal
// arrives. Returns OK once it has drained and stopped, which a second signal
// speeds up, or the error if it could not start. A signal during the start ends
// the process with status 0. REQUIRES: BlockFlightSignal().
//
// If the engine fails or hangs, or the process of a rank ends, this process
// ends within a second: the reason is on stderr, the last rounds are in the
// folder for them, and the status is 1. No destructor runs, because destructors
// wait for the device.
absl::Status RunWorkerProcess(const WorkerProcessOptions& options,
                              const StartWorker& start,
                              Termination& termination);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_WORKER_PROCESS_H_
