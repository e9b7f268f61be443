// bole-scheduler: queues, batches and selection behind gRPC.
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "common/draft_shape.h"
#include "common/termination.h"
#include "scheduler_service/scheduler_server.h"

namespace {

struct Flags {
  bole::SchedulerServerOptions server;
  int worker_timeout_ms = 10'000;
  int round_timeout_ms = 120'000;
  int drain_seconds = 30;
  bool allow_remote = false;

  void AddTo(CLI::App& app);
  void AddAddressesTo(CLI::App& app);
  void AddLimitsTo(CLI::App& app);
  void AddSpeculationTo(CLI::App& app);
};

void Flags::AddTo(CLI::App& app) {
  app.add_option("--model", server.model_directory,
                 "folder of the checkpoint: its tokenizer and chat template")
      ->required()
      ->check(CLI::ExistingDirectory);
  AddAddressesTo(app);
  AddLimitsTo(app);
  AddSpeculationTo(app);
}

void Flags::AddAddressesTo(CLI::App& app) {
  server.address = "127.0.0.1:8400";
  app.add_option("--listen", server.address,
                 "address for clients; port 0: any that is free")
      ->capture_default_str();
  app.add_option("--metrics-listen", server.metrics_address,
                 "address for Prometheus, at /metrics; none if left out");
  app.add_flag("--allow-remote", allow_remote,
               "let the addresses be reached from other machines, although "
               "nothing is encrypted and nobody is asked who they are");
  server.worker_address = "127.0.0.1:50052";
  app.add_option("--worker", server.worker_address, "address of the worker")
      ->capture_default_str();
  app.add_option("--worker-timeout-ms", worker_timeout_ms,
                 "a worker that is silent for so many milliseconds is lost")
      ->check(CLI::Range(100, 3'600'000))
      ->capture_default_str();
  app.add_option("--round-timeout-ms", round_timeout_ms,
                 "a worker that takes longer for a round is lost, although it "
                 "is heard of; prefill gets as much again per 1024 tokens")
      ->check(CLI::Range(100, 3'600'000))
      ->capture_default_str();
  app.add_option("--drain-seconds", drain_seconds,
                 "after SIGTERM, let requests run on for so long")
      ->check(CLI::Range(0, 86'400))
      ->capture_default_str();
}

void Flags::AddLimitsTo(CLI::App& app) {
  bole::AdmissionLimits& waiting = server.scheduler.admission;
  app.add_option("--max-waiting-requests", waiting.max_requests,
                 "requests that may wait for a place in the batch")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-waiting-tokens", waiting.max_tokens,
                 "their prompt tokens together")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--max-waiting-bytes", waiting.max_bytes,
                 "their messages' bytes together")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--max-running", server.scheduler.max_running,
                 "requests that run together, if the worker can")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
}

void Flags::AddSpeculationTo(CLI::App& app) {
  app.add_option("--lease-rounds", server.scheduler.lease_rounds,
                 "rounds that a worker on a GPU runs by itself while nothing "
                 "waits; 1: the scheduler plans each")
      ->check(CLI::Range(1, bole::kMaxLeaseRounds))
      ->capture_default_str();
  bole::Speculation& speculation = server.scheduler.speculation;
  using Mode = bole::SpeculationMode;
  app.add_option("--speculation", speculation.mode,
                 "what is drafted: off, chain or tree (the default)")
      ->option_text("MODE")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Mode>{{"off", Mode::kOff},
                                      {"chain", Mode::kChain},
                                      {"tree", Mode::kTree}}));
  app.add_option("--top-k", speculation.shape.top_k,
                 "tree: children of every expanded node")
      ->check(CLI::Range(1, bole::kMaxDraftTopK))
      ->capture_default_str();
  app.add_option("--depth", speculation.shape.depth, "levels that are drafted")
      ->check(CLI::Range(1, bole::kMaxDraftDepth))
      ->capture_default_str();
  app.add_option("--nodes", speculation.nodes,
                 "tree: nodes verified per round and request, the root "
                 "included")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "bole-scheduler: %s\n", status.ToString().c_str());
  return 1;
}

// Serves until a signal comes.
absl::Status Serve(const Flags& flags, bole::Termination& termination) {
  absl::StatusOr<std::unique_ptr<bole::SchedulerServer>> server =
      bole::SchedulerServer::Start(flags.server);
  if (!server.ok()) return server.status();
  if ((*server)->metrics_port() != 0) {
    std::printf("metrics on port %d\n", (*server)->metrics_port());
  }
  std::printf("listening on %s\n", (*server)->address().ToString().c_str());
  std::fflush(stdout);

  termination.Wait();
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::seconds(flags.drain_seconds);
  termination.RunUntilSignal([&] { (*server)->Drain(deadline); },
                             [&] { (*server)->Stop(); });
  (*server)->Stop();
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  absl::StatusOr<bole::Termination> termination = bole::Termination::Block();
  if (!termination.ok()) return Fail(termination.status());
  CLI::App app(
      "Serves clients of a Qwen3.5 checkpoint that a bole-worker runs. SIGTERM "
      "or SIGINT lets requests finish; a second one stops at once.",
      "bole-scheduler");
  Flags flags;
  flags.AddTo(app);
  CLI11_PARSE(app, argc, argv);
  flags.server.worker_timeout =
      std::chrono::milliseconds(flags.worker_timeout_ms);
  flags.server.scheduler.round_timeout =
      std::chrono::milliseconds(flags.round_timeout_ms);
  if (flags.allow_remote) flags.server.reach = bole::Reach::kAnywhere;
  const absl::Status status = Serve(flags, *termination);
  return status.ok() ? 0 : Fail(status);
}
