#include "worker_service/serving/worker_process.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/flight/flight_log.h"
#include "common/status_macros.h"
#include "worker_service/engine/memory_plan.h"
#include "worker_service/loop/step_record.h"
#include "worker_service/ranks/ranked_model.h"

namespace bole {
namespace {

void ExitAfterFailure(const Log& log, const FlightLog& flight,
                      const absl::Status& why) {
  log.Write(LogLevel::kError, why.ToString());
  const std::string written = flight.WriteFault();
  if (!written.empty()) log.Note(written);
  std::_Exit(1);
}

void SayWhereItListens(const WorkerServer& server) {
  const RankedModel& model = server.model();
  if (model.num_ranks() > 1) {
    std::printf("ranks: %d %s, of which each has\n", model.num_ranks(),
                model.has_processes() ? "processes" : "threads");
  }
  std::printf("memory: %s\n", ToString(model.memory()).c_str());
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
  const Log log(options.log_format, "bole-worker");
  const auto note = [&log](const std::string& what) { log.Note(what); };
  BOLE_ASSIGN_OR_RETURN(const std::unique_ptr<FlightLog> flight,
                        FlightLog::Start({.fields = StepFields(),
                                          .capacity = kStepRecords,
                                          .service = "bole-worker",
                                          .folder = options.flight_folder,
                                          .note = note}));
  WorkerServerOptions server_options = options.server;
  server_options.note = note;
  server_options.flight = &flight->recorder();
  server_options.on_failure = [&](const absl::Status& why) {
    ExitAfterFailure(log, *flight, why);
  };
  absl::StatusOr<std::unique_ptr<WorkerServer>> server;
  // Reading a checkpoint may take minutes, and nothing is lost if the process
  // ends meanwhile.
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
