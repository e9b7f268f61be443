// bole-worker on a device that breaks. Arguments: what the device does ("error"
// or "hang"), after how many good steps, the step timeout in milliseconds,
// the file to record in, and the folder for the last rounds.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/flight/flight_signals.h"
#include "common/termination.h"
#include "tests/worker_service/engine/faulty_backend.h"
#include "tests/worker_service/serving/started_worker.h"
#include "worker_service/serving/worker_process.h"

int main(int argc, char** argv) {
  using bole::testing::FaultyBackend;
  bole::BlockFlightSignal();
  absl::StatusOr<bole::Termination> termination = bole::Termination::Block();
  if (argc != 6 || !termination.ok()) return 2;
  const FaultyBackend::Fault fault = argv[1] == std::string("hang")
                                         ? FaultyBackend::Fault::kHang
                                         : FaultyBackend::Fault::kError;
  bole::WorkerProcessOptions options;
  options.server.model.name = "models/demo";
  options.server.step_timeout = std::chrono::milliseconds(std::atoi(argv[3]));
  options.server.record_path = argv[4];
  options.flight_folder = argv[5];
  const absl::Status status = bole::RunWorkerProcess(
      options,
      [&](const bole::WorkerServerOptions& server) {
        auto backend = std::make_unique<FaultyBackend>();
        backend->BreakAfter(std::atoi(argv[2]), fault);
        return bole::testing::StartOn(std::move(backend), server);
      },
      *termination);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 3;
}
