// bole-sim-worker: the protocol of a worker without its model.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/command_line.h"
#include "common/draft_shape.h"
#include "common/status_macros.h"
#include "common/step.h"
#include "common/step_costs.h"
#include "common/termination.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/simulated_model.h"
#include "tests/simulation/simulated_server.h"
#include "worker_service/serving/serving_flags.h"

namespace {

using bole::simulation::Fault;
using bole::simulation::SimulatedServer;
using bole::simulation::SimulatedServerOptions;

constexpr int kMaxPages = 1 << 24;

// What a signal handler may touch.
std::atomic<int> num_signals = 0;
static_assert(std::atomic<int>::is_always_lock_free);

struct Flags {
  SimulatedServerOptions server;
  std::string model;
  std::string costs_path;
  std::vector<std::string> faults;
  int vocabulary = 0;
  int num_checkpoints = -1;
  bool no_drafter = false;
  bole::ServingFlags serving;

  void AddTo(bole::CommandLine& app);
  void AddSizesTo(bole::CommandLine& app);
  void AddBehaviourTo(bole::CommandLine& app);
  // Reads the files that the flags name.
  absl::Status Complete();
};

void Flags::AddTo(bole::CommandLine& app) {
  app.Add("--model", model,
          "folder of the checkpoint that the scheduler serves: its tokenizer "
          "and stop tokens are used, not its weights")
      .Required()
      .ExistingDirectory();
  server.model = "";
  app.Add("--name", server.model,
          "the model's name for the scheduler; the folder's if left out");
  serving.AddTo(app);
  AddSizesTo(app);
  AddBehaviourTo(app);
}

void Flags::AddSizesTo(bole::CommandLine& app) {
  bole::StepLimits& limits = server.runner.engine.limits;
  limits = {.max_requests = 64,
            .max_nodes = 1024,
            .max_nodes_per_tree = 64,
            .max_prefill_tokens = 2048,
            .max_draft = {},
            .page_size = 64,
            .max_context = 4096,
            .max_lease_rounds = bole::kMaxLeaseRounds};
  const auto add = [&app](const char* flag, int& value, const char* help,
                          int low, int high) {
    app.Add(flag, value, help).Range(low, high).Group("Sizes");
  };
  add("--max-requests", limits.max_requests, "requests in one step", 1, 4096);
  add("--slots", limits.num_slots,
      "requests that keep their state; 0: as --max-requests", 0, 1 << 20);
  add("--checkpoints", num_checkpoints,
      "slots beyond those for checkpoints; -1: as many", -1, 1 << 20);
  add("--context", limits.max_context, "longest text in tokens", 1, 1 << 24);
  add("--pages", limits.num_pages,
      "pages for keys and values; 0: enough for all slots at full context", 0,
      kMaxPages);
  add("--host-slots", limits.num_host_slots,
      "places on the host for what slots hold", 0, 1 << 20);
  add("--host-pages", limits.num_host_pages, "places on the host for pages", 0,
      kMaxPages);
  add("--page-size", limits.page_size, "tokens of a page", 1, 1 << 16);
  add("--max-nodes", limits.max_nodes, "nodes verified in one step", 1,
      1 << 20);
  add("--max-nodes-per-request", limits.max_nodes_per_tree,
      "nodes verified in one step for one request", 1, 128);
  add("--max-prefill", limits.max_prefill_tokens,
      "prompt tokens run in one step", 1, 1 << 20);
  add("--max-draft-top-k", limits.max_draft.top_k,
      "children that a drafted node may get", 1, bole::kMaxDraftTopK);
  add("--max-draft-depth", limits.max_draft.depth, "levels that may be drafted",
      1, bole::kMaxDraftDepth);
  add("--max-lease-rounds", limits.max_lease_rounds,
      "rounds that a scheduler may leave to the worker", 1,
      bole::kMaxLeaseRounds);
  add("--vocabulary", vocabulary,
      "size of the vocabulary; 0: as the tokenizer's", 0, 1 << 24);
}

void Flags::AddBehaviourTo(bole::CommandLine& app) {
  bole::simulation::StepRunnerOptions& runner = server.runner;
  app.Add("--accept", runner.engine.accept,
          "probability that a drafted level holds the right token where those "
          "above do, one for each depth; the last one stands for all deeper "
          "levels");
  app.AddSwitch("--no-drafter", no_drafter, "propose nothing");
  app.Add("--stop-probability", runner.engine.text.stop_probability,
          "probability of a stop token at each position of a text");
  app.Add("--seed", runner.engine.text.seed, "another seed writes other texts");
  app.Add("--costs", costs_path,
          "table of step times, as tests/simulation/README.md says; without it "
          "a step takes what its simulation takes");
  app.AddSwitch("--tell-costs", server.tells_costs,
                "tell the scheduler of --costs, as a calibrated worker does; "
                "for --speed 1");
  app.Add("--speed", runner.speed,
          "step times are divided by it; 0: no step waits")
      .NonNegative();
  app.Add("--fault", faults,
          "crash, hang, garbage[=WHAT] or slow:FACTOR, followed by @ROUND, "
          "@FIRST-LAST, @FIRST-, @signal (the round after a SIGUSR1) or "
          ":random=PROBABILITY,SEED; may be given several times");
}

absl::Status Flags::Complete() {
  bole::simulation::StepRunnerOptions& runner = server.runner;
  bole::StepLimits& limits = runner.engine.limits;
  if (server.model.empty()) {
    server.model = std::filesystem::canonical(model).filename().string();
  }
  BOLE_ASSIGN_OR_RETURN(const bole::simulation::SimulatedModel text,
                        bole::simulation::LoadSimulatedModel(model));
  limits.vocabulary = vocabulary > 0 ? vocabulary : text.vocabulary;
  runner.engine.text.alphabet = text.alphabet;
  runner.engine.text.stop_tokens = text.stop_tokens;
  if (no_drafter) runner.engine.accept.clear();
  if (limits.num_slots == 0) limits.num_slots = limits.max_requests;
  if (limits.num_pages == 0) {
    const int64_t pages = int64_t{limits.num_slots} * limits.MaxPages();
    limits.num_pages = static_cast<int>(std::min<int64_t>(pages, kMaxPages));
  }
  limits.num_slots += num_checkpoints < 0 ? limits.num_slots : num_checkpoints;
  if (!costs_path.empty()) {
    BOLE_ASSIGN_OR_RETURN(runner.costs, bole::StepCosts::Load(costs_path));
  } else if (server.tells_costs) {
    return absl::InvalidArgumentError("--tell-costs needs --costs");
  }
  for (const std::string& fault : faults) {
    BOLE_ASSIGN_OR_RETURN(Fault parsed, bole::simulation::ParseFault(fault));
    runner.faults.push_back(parsed);
  }
  runner.num_signals = [] { return num_signals.load(); };
  std::signal(SIGUSR1, [](int) { ++num_signals; });
  server.address = serving.address;
  server.metrics_address = serving.metrics_address;
  server.health_address = serving.health_address;
  server.tls = serving.tls;
  server.collector = serving.collector;
  server.reach = serving.reach();
  server.heartbeat_interval = serving.heartbeat_interval();
  server.scheduler_timeout = serving.scheduler_timeout();
  return absl::OkStatus();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "bole-sim-worker: %s\n", status.ToString().c_str());
  return 1;
}

// Serves until a signal comes.
absl::Status Serve(Flags& flags, bole::Termination& termination) {
  BOLE_RETURN_IF_ERROR(flags.Complete());
  BOLE_ASSIGN_OR_RETURN(const std::unique_ptr<SimulatedServer> server,
                        SimulatedServer::Start(flags.server));
  if (server->health_port() != 0) {
    std::printf("health on port %d\n", server->health_port());
  }
  if (server->metrics_port() != 0) {
    std::printf("metrics on port %d\n", server->metrics_port());
  }
  std::printf("listening on %s\n", server->address().ToString().c_str());
  std::fflush(stdout);

  termination.Wait();
  const auto deadline =
      std::chrono::steady_clock::now() + flags.serving.drain_time();
  termination.RunUntilSignal([&] { server->Drain(deadline); },
                             [&] { server->Stop(); });
  server->Stop();
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  absl::StatusOr<bole::Termination> termination = bole::Termination::Block();
  if (!termination.ok()) return Fail(termination.status());
  bole::CommandLine app(
      "bole-sim-worker",
      "Speaks a worker's protocol without a model, for tests and load runs: "
      "its texts are hashes of what its memory holds, its step times come from "
      "a table, and it fails when it is told to. SIGTERM or SIGINT lets the "
      "scheduler finish what runs; a second one stops at once.");
  Flags flags;
  flags.AddTo(app);
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const absl::Status status = Serve(flags, *termination);
  return status.ok() ? 0 : Fail(status);
}
