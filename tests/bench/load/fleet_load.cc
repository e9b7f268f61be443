// What the scheduler's loop takes for the rounds of many workers: simulated
// workers and their clients in one process with the real loop, in real time.
// Fails if the loop takes too long for a round, if a text is wrong, or if the
// process grows.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/command_line.h"
#include "common/ids.h"
#include "common/step_costs.h"
#include "scheduler_service/scheduler_loop.h"
#include "scheduler_service/watch/metrics.h"
#include "tests/bench/load/event_thread.h"
#include "tests/bench/load/fleet_workers.h"
#include "tests/bench/load/stream_clients.h"
#include "tests/scheduler_service/catalogs.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Flags {
  int workers = 64;
  int streams = 5000;
  int step_ms = 500;
  int warm_up_seconds = 30;
  int seconds = 600;
  double max_cpu_ms = 5;
  double max_growth_percent = 3;
};

// Resident memory of this process.
double MebibytesResident() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  BOLE_CHECK(static_cast<bool>(statm >> total >> resident));
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

simulation::VirtualWorkerOptions WorkerOptions(const Flags& flags) {
  // A few places more than streams, so that all of them run.
  const int places = flags.streams / flags.workers * 21 / 20 + 2;
  constexpr int kContext = 640;
  constexpr int kPageSize = 16;
  // A third more than streams hold on average. Simulated pages take memory
  // once they were written, and so all of them soon are.
  constexpr int kPagesPerPlace = 27;
  auto costs = StepCosts::Parse(
      absl::StrCat(R"({"terms": [{"name": "step", "axes": [["rows", [1]]],)",
                   R"( "microseconds": [)", 1000 * flags.step_ms, R"(]}]})"));
  BOLE_CHECK(costs.ok());
  return {.engine = {.limits = {.max_requests = places,
                                .max_nodes = places * kDefaultTreeNodes,
                                .max_nodes_per_tree = kDefaultTreeNodes,
                                .max_prefill_tokens = 8192,
                                .max_draft = {.top_k = 4, .depth = 8},
                                .num_slots = places,
                                .num_pages = places * kPagesPerPlace,
                                .page_size = kPageSize,
                                .max_context = kContext,
                                .vocabulary = 256},
                     .text = simulation::LetterText(),
                     .accept = {0.8, 0.7, 0.6}},
          .costs = *std::move(costs),
          .speed = 1,
          .faults = {}};
}

SchedulerOptions LoopOptions(const Flags& flags) {
  SchedulerOptions options;
  options.max_running = flags.streams;
  options.admission.max_requests = flags.streams;
  options.admission.max_tokens = size_t{1} << 30;
  return options;
}

// What the process and the scheduler were like while it was measured.
struct Observed {
  double first_mebibytes = 0;  // After the first fifth.
  double most_mebibytes = 0;
  double last_mebibytes = 0;
  int fewest_running = 0;

  double GrowthPercent() const {
    return 100 * (last_mebibytes / first_mebibytes - 1);
  }
};

// Takes `flags.seconds`.
Observed Observe(const Flags& flags, const SchedulerLoop& loop) {
  // Page tables and heaps fill in the first fifth.
  std::this_thread::sleep_for(seconds(flags.seconds) / 5);
  Observed seen;
  seen.first_mebibytes = MebibytesResident();
  seen.most_mebibytes = seen.first_mebibytes;
  seen.fewest_running = loop.status().running;
  for (int i = flags.seconds / 5; i < flags.seconds; ++i) {
    std::this_thread::sleep_for(seconds(1));
    seen.most_mebibytes = std::max(seen.most_mebibytes, MebibytesResident());
    seen.fewest_running = std::min(seen.fewest_running, loop.status().running);
  }
  seen.last_mebibytes = MebibytesResident();
  return seen;
}

// A line of JSON, and another for people where a bound is broken. Returns
// whether all bounds hold.
bool Report(const Flags& flags, const LoopTimes& times,
            const StreamClients& clients, const Observed& seen,
            const std::string& problem) {
  const double cpu_ms = times.cpu().Percentile(0.99) / 1e3;
  std::printf(
      "{\"bench\": \"fleet load\", \"workers\": %d, \"streams\": %d, "
      "\"fewest_running\": %d, \"step_ms\": %d, \"seconds\": %d, "
      "\"rounds\": %zu, \"rounds_per_turn\": %.2f, \"loop_cpu_p50_ms\": %.3f, "
      "\"loop_cpu_p99_ms\": %.3f, "
      "\"loop_cpu_max_ms\": %.3f, \"loop_cpu_share\": %.3f, "
      "\"wall_p50_ms\": %.3f, \"wall_p99_ms\": %.3f, \"requests_right\": %lld, "
      "\"requests_wrong\": %lld, \"tokens\": %lld, \"mebibytes_at_a_fifth\": "
      "%.1f, \"mebibytes_most\": %.1f, \"mebibytes_at_the_end\": %.1f, "
      "\"problem\": \"%s\"}\n",
      flags.workers, flags.streams, seen.fewest_running, flags.step_ms,
      flags.seconds, times.cpu().size(), times.plans_per_turn(),
      times.cpu().Percentile(0.5) / 1e3, cpu_ms,
      times.cpu().Percentile(1) / 1e3, times.cpu_seconds() / flags.seconds,
      times.wall().Percentile(0.5) / 1e3, times.wall().Percentile(0.99) / 1e3,
      static_cast<long long>(clients.num_right()),
      static_cast<long long>(clients.num_wrong()),
      static_cast<long long>(clients.num_tokens()), seen.first_mebibytes,
      seen.most_mebibytes, seen.last_mebibytes, problem.c_str());
  const bool ok = cpu_ms < flags.max_cpu_ms && problem.empty() &&
                  clients.num_wrong() == 0 && clients.num_right() > 0 &&
                  seen.GrowthPercent() <= flags.max_growth_percent;
  if (!ok) {
    std::fprintf(stderr,
                 "a bound is broken: CPU %.3f of %.3f ms, memory grew "
                 "by %.1f of %.1f %%, %lld requests are wrong: %s\n",
                 cpu_ms, flags.max_cpu_ms, seen.GrowthPercent(),
                 flags.max_growth_percent,
                 static_cast<long long>(clients.num_wrong()), problem.c_str());
  }
  return ok;
}

int Run(const Flags& flags) {
  const ModelCatalog catalog = testing::TinyCatalog({"simulated"});
  Metrics metrics;
  LoopTimes times(2 * flags.workers * 1000 / flags.step_ms *
                  (flags.seconds + flags.warm_up_seconds));
  SchedulerLoop loop(LoopOptions(flags), catalog, metrics);
  EventThread thread;
  std::vector<std::unique_ptr<FleetWorker>> workers;
  for (int i = 0; i < flags.workers; ++i) {
    const auto post = [&loop, i](WorkerNews news) {
      loop.Post({.worker = WorkerId(i), .news = std::move(news)});
    };
    workers.push_back(std::make_unique<FleetWorker>(WorkerOptions(flags),
                                                    thread, times, post));
    post(WorkerAdded{.name = absl::StrCat("worker ", i),
                     .client = workers.back().get()});
    // Rounds of the workers end at different times.
    workers.back()->JoinAfter(milliseconds(flags.step_ms) * i / flags.workers);
  }
  loop.Start([](WorkerId) { return true; }, [&times] { times.TurnEnded(); });
  while (loop.status().num_connected() < flags.workers) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  StreamClients clients(loop, flags.streams);
  clients.Start();

  std::this_thread::sleep_for(seconds(flags.warm_up_seconds));
  times.Restart();
  const Observed seen = Observe(flags, loop);
  const std::string audit = loop.status().audit;
  clients.Finish();
  loop.Stop();
  thread.Stop();

  std::string problem = audit.empty() ? clients.first_wrong() : audit;
  for (const auto& worker : workers) {
    if (problem.empty()) problem = worker->worker().last_problem();
  }
  return Report(flags, times, clients, seen, problem) ? 0 : 1;
}

}  // namespace
}  // namespace bole

int main(int argc, char** argv) {
  bole::Flags flags;
  bole::CommandLine app(
      "fleet_load",
      "Runs a scheduler's loop with simulated workers and clients in this "
      "process, and prints what the loop takes for a worker's round. Exits "
      "with 1 if a bound is broken.");
  app.Add("--workers", flags.workers, "simulated workers").Positive();
  app.Add("--streams", flags.streams, "requests that are open at a time")
      .Positive();
  app.Add("--step-ms", flags.step_ms, "how long a round takes").Positive();
  app.Add("--warm-up", flags.warm_up_seconds, "seconds before the measurement")
      .NonNegative();
  app.Add("--seconds", flags.seconds, "seconds of the measurement")
      .Range(5, 1 << 20);
  app.Add("--max-cpu-ms", flags.max_cpu_ms,
          "bound on the p99 of the loop's CPU time for a round");
  app.Add("--max-growth-percent", flags.max_growth_percent,
          "bound on the growth of the process from a fifth of the time on");
  if (const auto exit_code = app.Parse(argc, argv)) return *exit_code;
  return bole::Run(flags);
}
