// bole-scheduler: queues, batches and selection behind gRPC.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/descriptor_limit.h"
#include "common/draft_shape.h"
#include "common/termination.h"
#include "scheduler_service/door_limits.h"
#include "scheduler_service/scheduler_server.h"

namespace {

struct Flags {
  bole::SchedulerServerOptions server;
  int worker_timeout_ms = 10'000;
  int round_timeout_ms = 120'000;
  int drain_seconds = 30;
  int stalled_reader_seconds = 60;
  size_t max_undelivered_mb = 16;
  size_t max_output_mb = 1024;
  bool allow_remote = false;

  void AddTo(CLI::App& app);
  void AddAddressesTo(CLI::App& app);
  void AddLimitsTo(CLI::App& app);
  void AddDoorTo(CLI::App& app);
  void AddSpeculationTo(CLI::App& app);
  // What the flags say together. An error says which of them to change.
  absl::StatusOr<bole::SchedulerServerOptions> ServerOptions() const;
};

void Flags::AddTo(CLI::App& app) {
  app.add_option("--model", server.model_directory,
                 "folder of the checkpoint: its tokenizer and chat template")
      ->required()
      ->check(CLI::ExistingDirectory);
  AddAddressesTo(app);
  AddLimitsTo(app);
  AddDoorTo(app);
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
                 "a worker is lost after this many milliseconds of silence")
      ->check(CLI::Range(100, 3'600'000))
      ->capture_default_str();
  app.add_option("--round-timeout-ms", round_timeout_ms,
                 "a worker that takes longer for a round is lost, although it "
                 "is heard of; prefill gets as much again per 1024 tokens")
      ->check(CLI::Range(100, 3'600'000))
      ->capture_default_str();
  app.add_option("--drain-seconds", drain_seconds,
                 "after SIGTERM, requests may run on and clients may read "
                 "their output for this time; a second signal ends both")
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

void Flags::AddDoorTo(CLI::App& app) {
  bole::DoorLimits& door = server.door;
  app.add_option("--max-open-requests", door.max_open_requests,
                 "requests that may be open: running, waiting, or being read "
                 "by their clients")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-long-messages", door.max_long_messages,
                 "messages above 16 KiB that may wait to be read, of Generate, "
                 "and as many of Tokenize and Detokenize")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--max-undelivered-mb", max_undelivered_mb,
                 "a request is ended if more MiB of its output wait for its "
                 "client")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--max-output-mb", max_output_mb,
                 "output of all requests in memory, in MiB: above that the "
                 "slowest readers are ended, and new requests refused")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--stalled-reader-seconds", stalled_reader_seconds,
                 "a request is ended if its client does not take a message "
                 "within this time")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
}

absl::StatusOr<bole::SchedulerServerOptions> Flags::ServerOptions() const {
  if (max_undelivered_mb > max_output_mb) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-undelivered-mb is ", max_undelivered_mb,
                     ", for one request; --max-output-mb, for all of them, is ",
                     max_output_mb, ": make it at least as large"));
  }
  bole::SchedulerServerOptions options = server;
  options.worker_timeout = std::chrono::milliseconds(worker_timeout_ms);
  options.scheduler.round_timeout = std::chrono::milliseconds(round_timeout_ms);
  if (allow_remote) options.reach = bole::Reach::kAnywhere;
  options.door.max_undelivered_bytes = max_undelivered_mb << 20;
  options.door.max_output_bytes = max_output_mb << 20;
  options.door.stalled_reader = std::chrono::seconds(stalled_reader_seconds);
  return options;
}

// One descriptor for each request is enough even if each has a connection of
// its own; these are for the worker, metrics, and what is refused.
constexpr size_t kOtherDescriptors = 256;

void AllowDescriptors(size_t max_open_requests) {
  const size_t limit = bole::RaiseDescriptorLimit();
  if (limit >= max_open_requests + kOtherDescriptors) return;
  std::fprintf(stderr,
               "bole-scheduler: the system allows %zu open files, which is too "
               "few for --max-open-requests %zu on connections of their own; "
               "raise the hard limit (ulimit -Hn)\n",
               limit, max_open_requests);
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
  absl::StatusOr<bole::SchedulerServerOptions> options = flags.ServerOptions();
  if (!options.ok()) return options.status();
  AllowDescriptors(options->door.max_open_requests);
  absl::StatusOr<std::unique_ptr<bole::SchedulerServer>> server =
      bole::SchedulerServer::Start(*options);
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
  const absl::Status status = Serve(flags, *termination);
  return status.ok() ? 0 : Fail(status);
}
