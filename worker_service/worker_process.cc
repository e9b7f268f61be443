#include "worker_service/worker_process.h"

#include <cstdio>
#include <cstdlib>

#include "worker_service/memory_plan.h"

namespace bole {
namespace {

void ExitAfterFailure(const absl::Status& why) {
  std::fprintf(stderr, "bole-worker: %s\n", why.ToString().c_str());
  std::_Exit(1);
}

void SayWhereItListens(const WorkerServer& server) {
  std::printf("memory: %s\n", ToString(server.memory()).c_str());
  if (server.health_port() != 0) {
    std::printf("health on port %d\n", server.health_port());
  }
  if (server.metrics_port() != 0) {
    std::printf("metrics on port %d\n", server.metrics_port());
  }
  std::printf("listening on %s\n", server.address().ToString().c_str());
  std::fflush(stdout);
}

}  // namespace

absl::Status RunWorkerProcess(const WorkerProcessOptions& options,
                              const StartWorker& start,
                              Termination& termination) {
  WorkerServerOptions server_options = options.server;
  server_options.on_failure = ExitAfterFailure;
  absl::StatusOr<std::unique_ptr<WorkerServer>> server;
  // Reading a checkpoint may take minutes, and nothing is lost if it ends.
  termination.RunUntilSignal([&] { server = start(server_options); },
                             [] { std::_Exit(0); });
  if (!server.ok()) return server.status();
  SayWhereItListens(**server);

  termination.Wait();
  const auto deadline = std::chrono::steady_clock::now() + options.drain_time;
  termination.RunUntilSignal([&] { (*server)->Drain(deadline); },
                             [&] { (*server)->Stop(); });
  (*server)->Stop();
  return absl::OkStatus();
}

}  // namespace bole
