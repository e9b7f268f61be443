// A worker as a process: from its start to its exit status.
#ifndef BOLE_WORKER_SERVICE_WORKER_PROCESS_H_
#define BOLE_WORKER_SERVICE_WORKER_PROCESS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/log/log.h"
#include "common/termination.h"
#include "worker_service/worker_server.h"

namespace bole {

struct WorkerProcessOptions {
  WorkerServerOptions server;  // Its on_failure is replaced.
  // After the first signal, the scheduler has this long to leave.
  std::chrono::seconds drain_time{30};
  // For files of the last rounds, as FlightLogOptions has it; empty: none.
  std::string flight_folder = {};
  LogFormat log_format = LogFormat::kText;  // On standard error.
};

// WorkerServer::Start, or another way to make a server of these options.
using StartWorker = std::function<absl::StatusOr<std::unique_ptr<WorkerServer>>(
    const WorkerServerOptions& options)>;

// Starts a server, says on stdout where it listens, and serves until a signal
// comes. Returns OK once it has drained and stopped, which a second signal
// hastens, or why it could not start. A signal while it starts ends the process
// with status 0. REQUIRES: BlockFlightSignal().
//
// An engine that fails or hangs ends the process within a second, and so does
// the process of a rank that ends: why is on stderr, the last rounds are in the
// folder for them, and the status is 1. No destructor runs, because destructors
// wait for the device.
absl::Status RunWorkerProcess(const WorkerProcessOptions& options,
                              const StartWorker& start,
                              Termination& termination);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_WORKER_PROCESS_H_
