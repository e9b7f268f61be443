// bole-worker: one model replica behind gRPC.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "common/termination.h"
#include "worker_service/draft_head.h"
#include "worker_service/draft_weights.h"
#include "worker_service/engine_flags.h"
#include "worker_service/loaded_model.h"
#include "worker_service/worker_process.h"
#include "worker_service/worker_server.h"

namespace {

struct Flags {
  bole::WorkerServerOptions server;
  int heartbeat_ms = 1000;
  int drain_seconds = 30;
  std::optional<int> step_timeout_seconds;
  bool allow_remote = false;
  bool no_warm_up = false;

  void AddTo(CLI::App& app);
};

// For CLI11: what is wrong with a model's name, or nothing.
std::string CheckModel(const std::string& model) {
  return std::string(bole::CheckModelName(model).message());
}

void Flags::AddTo(CLI::App& app) {
  app.add_option("--model", server.model,
                 "folder of a checkpoint, or synthetic:SIZE for a model made "
                 "up on the spot, such as synthetic:9B,accept=6.9")
      ->required()
      ->check(CheckModel);
  server.address = "127.0.0.1:50052";
  app.add_option("--listen", server.address,
                 "address for the scheduler; port 0: any that is free")
      ->capture_default_str();
  app.add_option("--metrics-listen", server.metrics_address,
                 "address for Prometheus, at /metrics; none if left out");
  app.add_flag("--allow-remote", allow_remote,
               "let the addresses be reached from other machines, although "
               "nothing is encrypted and nobody is asked who they are");
  server.device = "auto";
  app.add_option("--device", server.device,
                 "what computes: cpu, cuda, cuda:N, or auto for a GPU if there "
                 "is one")
      ->capture_default_str();
  app.add_option("--threads", server.num_threads,
                 "threads of the CPU; 0: one for each processor, at most 16")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  bole::AddDraftHeadFlag(app, server.draft_head);
  bole::AddDraftWeightsFlag(app, server.draft_weights);
  app.add_option("--heartbeat-ms", heartbeat_ms,
                 "milliseconds between heartbeats")
      ->check(CLI::Range(10, 60'000))
      ->capture_default_str();
  app.add_option("--drain-seconds", drain_seconds,
                 "after SIGTERM, wait so long for the scheduler to leave")
      ->check(CLI::Range(0, 86'400))
      ->capture_default_str();
  app.add_option("--step-timeout-seconds", step_timeout_seconds,
                 "end the process when a step gives no result for so long; 0: "
                 "never; if left out, 60 on a GPU and never on a CPU")
      ->check(CLI::Range(0, 86'400));
  app.add_option("--record", server.record_path,
                 "write every plan before it runs, and its results, to this "
                 "file, for bole-eval replay");
  app.add_option("--memory-fraction", server.memory_fraction,
                 "share of a GPU's memory that may be used; what is left of it "
                 "becomes pages")
      ->check(CLI::Range(0.05, 1.0))
      ->capture_default_str();
  app.add_flag("--no-warm-up", no_warm_up,
               "listen at once, and capture every kind of round when it first "
               "comes; otherwise a worker on a GPU captures the likely ones "
               "first, which takes a minute at most");
  bole::AddEngineFlags(app, server.engine);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "bole-worker: %s\n", status.ToString().c_str());
  return 1;
}

bole::WorkerProcessOptions ProcessOptions(const Flags& flags) {
  bole::WorkerProcessOptions options{
      .server = flags.server,
      .drain_time = std::chrono::seconds(flags.drain_seconds)};
  bole::WorkerServerOptions& server = options.server;
  server.heartbeat_interval = std::chrono::milliseconds(flags.heartbeat_ms);
  if (flags.step_timeout_seconds) {
    server.step_timeout = std::chrono::seconds(*flags.step_timeout_seconds);
  }
  if (flags.allow_remote) server.reach = bole::Reach::kAnywhere;
  if (flags.no_warm_up) server.warm_up = std::chrono::seconds(0);
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  absl::StatusOr<bole::Termination> termination = bole::Termination::Block();
  if (!termination.ok()) return Fail(termination.status());
  CLI::App app(
      "Loads a Qwen3.5 checkpoint and runs the plans of a scheduler on it. "
      "SIGTERM or SIGINT lets the scheduler finish what runs; a second one "
      "stops at once.",
      "bole-worker");
  Flags flags;
  flags.AddTo(app);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = bole::RunWorkerProcess(
      ProcessOptions(flags), bole::WorkerServer::Start, *termination);
  return status.ok() ? 0 : Fail(status);
}
