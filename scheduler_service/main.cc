// bole-scheduler: the server that queues requests, batches them, and selects
// the nodes to verify.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/command_line.h"
#include "common/descriptor_limit.h"
#include "common/draft_shape.h"
#include "common/flight/flight_log.h"
#include "common/flight/flight_signals.h"
#include "common/log/log.h"
#include "common/status_macros.h"
#include "common/termination.h"
#include "scheduler_service/door/door_limits.h"
#include "scheduler_service/links/share.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/scheduler_server.h"
#include "scheduler_service/security_flags.h"
#include "scheduler_service/watch/request_watch.h"
#include "scheduler_service/watch/round_record.h"

namespace {

struct Flags {
  bole::SchedulerServerOptions server;
  bole::SecurityFlags security;
  int worker_timeout_ms = 10'000;
  int round_timeout_ms = 120'000;
  int max_lease_ms = 50;
  int drain_seconds = 30;
  int stalled_reader_seconds = 60;
  size_t max_undelivered_mb = 16;
  size_t max_output_mb = 1024;
  size_t max_http_bodies_mb = 256;
  std::string share;
  std::string flight_recorder_dir;
  bole::LogFormat log_format = bole::LogFormat::kText;

  void AddTo(bole::CommandLine& app);
  void AddAddressesTo(bole::CommandLine& app);
  void AddLimitsTo(bole::CommandLine& app);
  void AddDoorTo(bole::CommandLine& app);
  void AddWatchTo(bole::CommandLine& app);
  void AddSpeculationTo(bole::CommandLine& app);
  // Makes the server's options from the flags. An error says which flags to
  // change.
  absl::StatusOr<bole::SchedulerServerOptions> ServerOptions() const;
};

void Flags::AddTo(bole::CommandLine& app) {
  app.Add("--model", server.models,
          "[NAME=]FOLDER of a checkpoint: its tokenizer and chat template; "
          "NAME is the folder's if left out; any number of times")
      .Required()
      .OneValueEachTime();
  app.AddSwitch("--allow-synthetic", server.allow_synthetic,
                "let workers serve whose weights are made up; they join the "
                "model of their name");
  AddAddressesTo(app);
  AddLimitsTo(app);
  AddDoorTo(app);
  security.AddTo(app);
  AddWatchTo(app);
  AddSpeculationTo(app);
}

void Flags::AddAddressesTo(bole::CommandLine& app) {
  server.address = "127.0.0.1:8400";
  app.Add("--listen", server.address,
          "address for clients; port 0: any that is free");
  app.Add("--http-listen", server.http_address,
          "address for clients that speak HTTP; none if left out");
  app.Add("--metrics-listen", server.metrics_address,
          "address for Prometheus, at /metrics; none if left out");
  app.AddSwitch("--vllm-metric-names", server.vllm_metric_names,
                "tell metrics by vLLM's names as well, for what knows those");
  app.Add("--health-listen", server.health_address,
          "address of grpc.health.v1 alone, for whoever reaches it on any "
          "machine: without TLS and without tokens; none if left out");
  server.workers = {"127.0.0.1:50052"};
  app.Add("--worker", server.workers,
          "HOST:PORT of a worker, or of many: a name is looked up again as its "
          "addresses change; any number of times")
      .OneValueEachTime();
  app.Add("--peers", server.peers,
          "HOST:PORT of the schedulers that have the same workers, this one "
          "among them or not: a name that stands for all of them is looked up "
          "again and again; any number of times. Each claims its share of the "
          "workers, gives the surplus back, and takes over from one that is "
          "silent")
      .OneValueEachTime();
  app.Add("--share", share,
          "K/N: of every model's workers claim what is due to the K-th of N "
          "schedulers, living or not; instead of --peers");
  app.Add("--worker-timeout-ms", worker_timeout_ms,
          "a worker is lost after this many milliseconds of silence")
      .Range(100, 3'600'000);
  app.Add("--round-timeout-ms", round_timeout_ms,
          "a worker that takes longer for a round is lost, although it is "
          "heard of; prefill gets as much again per 1024 tokens")
      .Range(100, 3'600'000);
  app.Add("--drain-seconds", drain_seconds,
          "after SIGTERM, requests may run on and clients may read their "
          "output for this time; a second signal ends both")
      .Range(0, 86'400);
}

void Flags::AddLimitsTo(bole::CommandLine& app) {
  bole::AdmissionLimits& waiting = server.scheduler.admission;
  app.Add(
         "--max-waiting-requests", waiting.max_requests,
         "requests that may wait for a place in the batch, of one tenant while "
         "no other's wait; all together an eighth more")
      .Range(1, 1 << 20);
  app.Add("--max-waiting-tokens", waiting.max_tokens,
          "their prompt tokens together")
      .Range(1, 1 << 30);
  app.Add("--max-waiting-bytes", waiting.max_bytes,
          "their messages' bytes together")
      .Range(1, 1 << 30);
  app.Add("--max-running", server.scheduler.max_running,
          "requests that run together on a worker, if it can")
      .Range(1, 4096);
}

void Flags::AddDoorTo(bole::CommandLine& app) {
  bole::DoorLimits& door = server.door;
  app.Add("--max-open-requests", door.max_open_requests,
          "requests that may be open: running, waiting, or being read by their "
          "clients")
      .Range(1, 1 << 20);
  app.Add("--max-http-connections", server.max_http_connections,
          "connections of --http-listen; more are told 503 and closed")
      .Range(1, 1 << 20);
  app.Add("--max-http-bodies-mb", max_http_bodies_mb,
          "bodies that --http-listen is reading, in MiB together: above that "
          "clients are told 503, but for those who send 16 KiB or less")
      .Range(8, 1 << 20);
  app.Add("--max-long-messages", door.max_long_messages,
          "messages above 16 KiB that may wait to be read, of Generate, and as "
          "many of Tokenize and Detokenize")
      .Range(1, 1 << 16);
  app.Add("--max-undelivered-mb", max_undelivered_mb,
          "a request is ended if more MiB of its output wait for its client")
      .Range(1, 1 << 16);
  app.Add("--max-output-mb", max_output_mb,
          "output of all requests in memory, in MiB: above that the slowest "
          "readers are ended, and new requests refused")
      .Range(1, 1 << 20);
  app.Add("--stalled-reader-seconds", stalled_reader_seconds,
          "a request is ended if its client does not take a message within "
          "this time")
      .Range(1, 86'400);
}

void Flags::AddWatchTo(bole::CommandLine& app) {
  using Logged = bole::LoggedRequests;
  const char* const group = "Watching";
  app.Add(
         "--flight-recorder-dir", flight_recorder_dir,
         "folder for files of the last rounds, which are written when a worker "
         "is lost in a round, at most once a minute, when this process "
         "crashes, and on SIGUSR1; none if left out. `bole debug dump` gets "
         "them without it")
      .Group(group);
  app.AddChoice(
         "--log-format", log_format,
         {{"text", bole::LogFormat::kText}, {"json", bole::LogFormat::kJson}},
         "lines on standard error: texts, or JSON objects")
      .Group(group);
  app.AddChoice("--log-requests", server.watch.logged,
                {{"none", Logged::kNone},
                 {"failures", Logged::kFailures},
                 {"all", Logged::kAll}},
                "which requests have lines there, by their ids and tenants: "
                "those that are refused, fail, or lose their worker; or those "
                "that end well, too")
      .Group(group);
  app.Add("--otlp-endpoint", server.watch.collector.endpoint,
          "http://HOST:4318/v1/traces, or https, of a collector that gets the "
          "spans of sampled requests; none if left out")
      .Group(group);
  app.Add("--otlp-ca", server.watch.collector.ca_file,
          "https: the collector's certificate is of these authorities, in PEM; "
          "of the system's if left out")
      .Group(group);
  app.Add("--trace-sample-rate", server.watch.sample_rate,
          "share of the requests that are sampled where the caller's "
          "traceparent does not say")
      .Range(0.0, 1.0)
      .Group(group);
}

absl::StatusOr<bole::SchedulerServerOptions> Flags::ServerOptions() const {
  if (max_undelivered_mb > max_output_mb) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-undelivered-mb is ", max_undelivered_mb,
                     ", for one request; --max-output-mb, for all of them, is ",
                     max_output_mb, ": make it at least as large"));
  }
  std::set<std::string> addresses;
  for (const std::string& address : server.workers) {
    if (addresses.insert(address).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--worker ", address, " is there twice"));
  }
  bole::SchedulerServerOptions options = server;
  BOLE_RETURN_IF_ERROR(security.ApplyTo(options));
  if (!share.empty()) {
    if (!server.peers.empty()) {
      return absl::InvalidArgumentError(
          "--share is for schedulers without --peers: leave one of them out");
    }
    const absl::StatusOr<bole::Place> place = bole::ParsePlace(share);
    if (!place.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--share: ", place.status().message()));
    }
    options.share = *place;
  }
  options.worker_timeout = std::chrono::milliseconds(worker_timeout_ms);
  options.scheduler.round_timeout = std::chrono::milliseconds(round_timeout_ms);
  options.scheduler.max_lease = std::chrono::milliseconds(max_lease_ms);
  options.max_http_bodies_bytes = max_http_bodies_mb << 20;
  options.door.max_undelivered_bytes = max_undelivered_mb << 20;
  options.door.max_output_bytes = max_output_mb << 20;
  options.door.stalled_reader = std::chrono::seconds(stalled_reader_seconds);
  return options;
}

// One descriptor for each request is enough even if each has a connection of
// its own; these are for the workers, metrics, and refused calls.
constexpr size_t kOtherDescriptors = 256;

void AllowDescriptors(const bole::SchedulerServerOptions& options,
                      const bole::Log& log) {
  const size_t limit = bole::RaiseDescriptorLimit();
  const size_t max_open_requests = options.door.max_open_requests;
  const size_t max_http_connections =
      options.http_address.empty() ? 0 : options.max_http_connections;
  if (limit >= max_open_requests + max_http_connections + kOtherDescriptors) {
    return;
  }
  log.Write(
      bole::LogLevel::kWarning,
      absl::StrCat("the system allows ", limit,
                   " open files, which is too few for --max-open-requests ",
                   max_open_requests, " on connections of their own and ",
                   max_http_connections,
                   " connections of HTTP; raise the hard limit (ulimit -Hn)"));
}

void Flags::AddSpeculationTo(bole::CommandLine& app) {
  using Policy = bole::PolicyKind;
  app.AddChoice("--policy", server.scheduler.policy,
                {{"off", Policy::kOff},
                 {"fixed", Policy::kFixed},
                 {"epsilon", Policy::kEpsilon},
                 {"adaserve", Policy::kAdaServe},
                 {"goodput", Policy::kGoodput},
                 {"slo", Policy::kSlo}},
                "what decides how much is drafted and verified. All but off "
                "and fixed need workers with a table of costs, and do as fixed "
                "does with those that have none");
  app.Add("--epsilon", server.scheduler.epsilon,
          "epsilon: by which share a forward may take longer than one of plain "
          "decoding")
      .Range(0.0, 100.0);
  app.Add("--capacity", server.scheduler.capacity,
          "adaserve: nodes verified per round")
      .Range(1, 1 << 16);
  app.AddChoice("--prefix-cache", server.scheduler.prefix_cache,
                {{"on", true}, {"off", false}},
                "what texts begin with stays on workers, for others that begin "
                "alike");
  app.Add("--max-lease-ms", max_lease_ms,
          "rounds that a worker runs by itself take no longer than this "
          "together, as they are predicted")
      .Range(1, 10'000);
  app.Add("--lease-rounds", server.scheduler.lease_rounds,
          "rounds that a worker on a GPU runs by itself while nothing waits; "
          "1: the scheduler plans each")
      .Range(1, bole::kMaxLeaseRounds);
  bole::Speculation& speculation = server.scheduler.speculation;
  using Mode = bole::SpeculationMode;
  app.AddChoice(
      "--speculation", speculation.mode,
      {{"off", Mode::kOff}, {"chain", Mode::kChain}, {"tree", Mode::kTree}},
      "the most that is drafted");
  app.Add("--top-k", speculation.shape.top_k,
          "tree: children of every expanded node")
      .Range(1, bole::kMaxDraftTopK);
  app.Add("--depth", speculation.shape.depth, "levels that are drafted")
      .Range(1, bole::kMaxDraftDepth);
  app.Add(
         "--nodes", speculation.nodes,
         "fixed, tree: nodes verified per round and request, the root included")
      .Range(1, 128);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "bole-scheduler: %s\n", status.ToString().c_str());
  return 1;
}

// Serves until a signal arrives.
absl::Status Serve(const Flags& flags, bole::Termination& termination) {
  absl::StatusOr<bole::SchedulerServerOptions> options = flags.ServerOptions();
  if (!options.ok()) return options.status();
  const bole::Log log(flags.log_format, "bole-scheduler");
  const auto note = [&log](const std::string& what) { log.Note(what); };
  options->note = note;
  options->watch.log = &log;
  AllowDescriptors(*options, log);
  absl::StatusOr<std::unique_ptr<bole::FlightLog>> flight =
      bole::FlightLog::Start({.fields = bole::RoundFields(),
                              .capacity = bole::kRoundRecords,
                              .service = "bole-scheduler",
                              .folder = flags.flight_recorder_dir,
                              .note = note});
  if (!flight.ok()) return flight.status();
  options->scheduler.flight = {
      .recorder = &(*flight)->recorder(),
      .on_fault = [&log = **flight] { log.AskForFault(); }};
  absl::StatusOr<std::unique_ptr<bole::SchedulerServer>> server =
      bole::SchedulerServer::Start(*options);
  if (!server.ok()) return server.status();
  if ((*server)->http_port() != 0) {
    std::printf("http on port %d\n", (*server)->http_port());
  }
  if ((*server)->health_port() != 0) {
    std::printf("health on port %d\n", (*server)->health_port());
  }
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
  bole::BlockFlightSignal();
  absl::StatusOr<bole::Termination> termination = bole::Termination::Block();
  if (!termination.ok()) return Fail(termination.status());
  bole::CommandLine app(
      "bole-scheduler",
      "Serves clients of a Qwen3.5 checkpoint that a bole-worker runs. SIGTERM "
      "or SIGINT lets requests finish; a second one stops at once.");
  Flags flags;
  flags.AddTo(app);
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  const absl::Status status = Serve(flags, *termination);
  return status.ok() ? 0 : Fail(status);
}
