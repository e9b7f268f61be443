// bole-worker: one model replica behind gRPC.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/command_line.h"
#include "common/flight/flight_signals.h"
#include "common/log/log.h"
#include "common/termination.h"
#include "worker_service/engine/engine_flags.h"
#include "worker_service/loading/choose_backend.h"
#include "worker_service/loading/draft_head.h"
#include "worker_service/loading/draft_weights.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/ranks/rank_main.h"
#include "worker_service/ranks/ranked_model_options.h"
#include "worker_service/serving/serving_flags.h"
#include "worker_service/serving/worker_process.h"
#include "worker_service/serving/worker_server.h"

namespace {

struct Flags {
  bole::WorkerServerOptions server;
  bole::ServingFlags serving;
  std::optional<int> step_timeout_seconds;
  std::vector<int> devices;
  bool rank_processes = false;
  bool no_warm_up = false;
  std::string flight_recorder_dir;
  bole::LogFormat log_format = bole::LogFormat::kText;

  void AddTo(bole::CommandLine& app);

 private:
  void AddDevicesTo(bole::CommandLine& app);
};

// The error message for a model's name, or "" if the name is valid.
std::string CheckModel(const std::string& model) {
  return std::string(bole::CheckModelName(model).message());
}

void Flags::AddDevicesTo(bole::CommandLine& app) {
  server.model.device = "auto";
  const auto device = app.Add(
      "--device", server.model.device,
      "what computes: cpu, cuda, cuda:N, or auto for a GPU if there is one; "
      "rank R of several is on GPU N + R");
  app.Add("--threads", server.model.num_threads,
          "threads of the CPU, which compute, or load weights to a GPU; 0: one "
          "for each processor, at most 16")
      .Range(0, 1024);
  const auto ranks =
      app.Add(
             "--ranks", server.model.num_ranks,
             "parts that the model is cut into (tensor parallelism), each on a "
             "GPU of its own, or with its share of the CPU's threads")
          .Range(1, bole::kMaxRanks);
  app.Add("--devices", devices,
          "a GPU for each rank, such as 2,3, in place of --device and --ranks")
      .Range(0, 1024)
      .Excludes(device)
      .Excludes(ranks);
  bole::AddCollectivesFlag(app, server.model.collectives);
  app.AddSwitch("--rank-processes", rank_processes,
                "each of the ranks is a process of its own; otherwise those on "
                "a CPU are threads of this one");
}

void Flags::AddTo(bole::CommandLine& app) {
  app.Add("--model", server.model.name,
          "folder of a checkpoint, or synthetic:SIZE for a model made up on "
          "the spot, such as synthetic:9B,accept=6.9")
      .Required()
      .Check(CheckModel);
  serving.AddTo(app);
  AddDevicesTo(app);
  bole::AddDraftHeadFlag(app, server.model.draft_head);
  bole::AddDraftWeightsFlag(app, server.model.draft_weights);
  app.Add("--step-timeout-seconds", step_timeout_seconds,
          "end the process when a step gives no result for so long; 0: never; "
          "if left out, 60 on a GPU and never on a CPU")
      .Range(0, 86'400);
  app.Add("--record", server.record_path,
          "write every plan before it runs, and its results, to this file, for "
          "bole-eval replay");
  app.Add("--flight-recorder-dir", flight_recorder_dir,
          "folder for files of the last rounds, in numbers, which are written "
          "when the device fails or hangs, when this process crashes, and on "
          "SIGUSR1; none if left out");
  app.AddChoice(
      "--log-format", log_format,
      {{"text", bole::LogFormat::kText}, {"json", bole::LogFormat::kJson}},
      "lines on standard error: texts, or JSON objects");
  app.Add("--cost-table", server.cost_table_path,
          "what rounds cost, as bole-calibrate has measured it with this model "
          "on this device; a table of anything else is an error");
  app.Add("--memory-fraction", server.model.memory_fraction,
          "share of a GPU's memory that may be used; what is left of it "
          "becomes pages")
      .Range(0.05, 1.0);
  app.AddSwitch("--no-warm-up", no_warm_up,
                "listen at once, and capture every kind of round when it first "
                "comes; otherwise a worker on a GPU captures the likely ones "
                "first, which takes a minute at most");
  bole::AddEngineFlags(app, server.model.engine);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "bole-worker: %s\n", status.ToString().c_str());
  return 1;
}

bole::WorkerProcessOptions ProcessOptions(const Flags& flags) {
  bole::WorkerProcessOptions options{.server = flags.server,
                                     .drain_time = flags.serving.drain_time(),
                                     .flight_folder = flags.flight_recorder_dir,
                                     .log_format = flags.log_format};
  bole::WorkerServerOptions& server = options.server;
  server.address = flags.serving.address;
  server.metrics_address = flags.serving.metrics_address;
  server.health_address = flags.serving.health_address;
  server.tls = flags.serving.tls;
  server.collector = flags.serving.collector;
  server.reach = flags.serving.reach();
  server.heartbeat_interval = flags.serving.heartbeat_interval();
  server.scheduler_timeout = flags.serving.scheduler_timeout();
  if (flags.step_timeout_seconds) {
    server.step_timeout = std::chrono::seconds(*flags.step_timeout_seconds);
  }
  if (!flags.devices.empty()) {
    server.model.device =
        absl::StrCat("cuda:", absl::StrJoin(flags.devices, ","));
    server.model.num_ranks = static_cast<int>(flags.devices.size());
  }
  if (flags.rank_processes) {
    server.model.rank_kind = bole::RankKind::kProcesses;
  }
  if (flags.no_warm_up) server.model.warm_up = std::chrono::seconds(0);
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto exit_code = bole::RunIfRankProcess(argc, argv)) {
    return *exit_code;
  }
  bole::BlockFlightSignal();
  absl::StatusOr<bole::Termination> termination = bole::Termination::Block();
  if (!termination.ok()) return Fail(termination.status());
  bole::CommandLine app("bole-worker",
                        "Loads a Qwen3.5 checkpoint and runs the plans of a "
                        "scheduler on it. SIGTERM or SIGINT lets the scheduler "
                        "finish what runs; a second one stops at once.");
  Flags flags;
  flags.AddTo(app);
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const absl::Status status = bole::RunWorkerProcess(
      ProcessOptions(flags), bole::WorkerServer::Start, *termination);
  return status.ok() ? 0 : Fail(status);
}
