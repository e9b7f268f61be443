// bole bench: a load, and what it measures.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/bench/http_get.h"
#include "clients/bench/report.h"
#include "clients/bench/report_json.h"
#include "clients/bench/report_svg.h"
#include "clients/bench/report_text.h"
#include "clients/bench/runner.h"
#include "clients/bench/server_metrics.h"
#include "clients/bench/slo.h"
#include "clients/cli/bench_flags.h"
#include "clients/cli/bench_server.h"
#include "clients/cli/commands.h"
#include "clients/cli/failure.h"
#include "clients/cli/output.h"
#include "clients/cli/terminal.h"
#include "clients/cli/write_file.h"
#include "clients/sdk/client_options.h"
#include "clients/sdk/server_channel.h"
#include "common/command_line.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// What the flags ask for, checked before anything is sent.
struct Plan {
  bench::Workload workload;
  bench::ScheduleOptions schedule;
  bench::Slo slo;
  v1::SamplingParams sampling;
};

// What the run showed.
struct Outcome {
  bench::RunResult result;
  bench::Report report;
  std::vector<bench::MetricPair> pairs;  // Without metrics, none.
};

std::string Message(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

absl::StatusOr<Plan> MakePlan(const BenchFlags& flags) {
  Plan plan;
  BOLE_ASSIGN_OR_RETURN(plan.workload, LoadWorkload(flags));
  BOLE_ASSIGN_OR_RETURN(plan.schedule, MakeSchedule(flags, plan.workload));
  BOLE_ASSIGN_OR_RETURN(plan.slo, bench::ParseSlo(flags.slo));
  plan.sampling = BenchSampling(flags, plan.workload);
  return plan;
}

bench::RunDescription Describe(const BenchFlags& flags, const Plan& plan,
                               const BenchServer& server) {
  const auto targets = flags.targets.ToProto();
  return {
      {"server", server.address},
      {"transport", flags.http ? "HTTP" : "gRPC"},
      {"version", server.version},
      {"model",
       absl::StrCat(server.model, server.synthetic ? ", synthetic" : "")},
      {"speculation", server.speculation},
      {"workload",
       absl::StrCat(plan.workload.name, " (", plan.workload.format, ", ",
                    plan.workload.sessions.size(), " sessions)")},
      {"load", DescribeLoad(flags)},
      {"load seed", absl::StrCat(flags.load_seed)},
      {"sampling", plan.sampling.ShortDebugString()},
      {"targets", targets ? targets->ShortDebugString() : "none"},
  };
}

// Draws progress on a terminal; elsewhere, a line every ten seconds.
class ProgressPrinter {
 public:
  ProgressPrinter()
      : terminal_(isatty(STDERR_FILENO) != 0),
        line_(stderr, terminal_ ? StatusLine::Place::kOwnLine
                                : StatusLine::Place::kNowhere) {}
  ~ProgressPrinter() { line_.Hide(); }

  void Show(const bench::Progress& now) {
    constexpr double kLogSeconds = 10;
    if (now.seconds - before_.seconds < (terminal_ ? 0.2 : kLogSeconds)) return;
    const std::string text = bench::FormatProgress(before_, now);
    before_ = now;
    if (terminal_) {
      line_.Show(text, /*column=*/0);
    } else {
      std::fprintf(stderr, "%s\n", text.c_str());
    }
  }

 private:
  const bool terminal_;
  StatusLine line_;
  bench::Progress before_;
};

bench::RunnerOptions MakeRunnerOptions(const BenchFlags& flags,
                                       const Plan& plan,
                                       const BenchServer& server) {
  bench::RunnerOptions options;
  options.timeout_seconds = flags.connection.timeout_seconds;
  options.max_retries = flags.max_retries;
  options.conversation = {.model = flags.connection.model,
                          .chat = server.chat && !flags.raw,
                          .vocab_size = server.vocab_size,
                          .load_seed = flags.load_seed,
                          .history = flags.recorded_history
                                         ? bench::History::kRecorded
                                         : bench::History::kModel,
                          .sampling = plan.sampling,
                          .targets = flags.targets.ToProto()};
  return options;
}

// Sends sessions from the end of the workload, 16 at a time, with other ids.
void WarmUp(int count, bench::RunnerOptions options, const Plan& plan,
            Interrupt& interrupt) {
  constexpr int kConcurrency = 16;
  const std::vector<bench::Session>& all = plan.workload.sessions;
  const auto used = std::min(static_cast<std::ptrdiff_t>(count),
                             static_cast<std::ptrdiff_t>(all.size()));
  const bench::Workload last{.name = plan.workload.name,
                             .format = plan.workload.format,
                             .sessions = {all.end() - used, all.end()}};
  ++options.conversation.load_seed;
  bench::Runner runner(std::move(options));
  const OnInterrupt on_interrupt(interrupt, [&] { runner.Interrupt(); });
  std::fprintf(stderr, "warming up with %d sessions\n", count);
  runner.Run(last, {.arrivals = {},
                    .concurrency = std::min(count, kConcurrency),
                    .num_instances = count});
}

absl::StatusOr<bench::MetricValues> Scrape(const BenchFlags& flags) {
  if (!flags.metrics_url) return bench::MetricValues();
  const ClientOptions client = flags.connection.ToClientOptions();
  BOLE_ASSIGN_OR_RETURN(const ServerChannel channel,
                        ServerChannel::Open(client));
  BOLE_ASSIGN_OR_RETURN(
      const std::string page,
      bench::HttpGet(*flags.metrics_url,
                     {.ca_file = client.ca_file,
                      .cert_file = client.cert_file,
                      .key_file = client.key_file,
                      .authorization = channel.authorization()}));
  return bench::ParseMetrics(page);
}

absl::StatusOr<Outcome> Measure(const BenchFlags& flags, const Plan& plan,
                                const BenchServer& server,
                                Interrupt& interrupt) {
  bench::RunnerOptions options = MakeRunnerOptions(flags, plan, server);
  BOLE_ASSIGN_OR_RETURN(options.transport, MakeTransport(flags));
  if (flags.warmup > 0) WarmUp(flags.warmup, options, plan, interrupt);
  BOLE_ASSIGN_OR_RETURN(const bench::MetricValues before, Scrape(flags));
  Outcome outcome;
  {
    ProgressPrinter printer;
    options.on_progress = [&](const bench::Progress& now) {
      printer.Show(now);
    };
    bench::Runner runner(std::move(options));
    const OnInterrupt on_interrupt(interrupt, [&] { runner.Interrupt(); });
    outcome.result = runner.Run(plan.workload, plan.schedule);
  }
  outcome.report = bench::MakeReport(outcome.result.records, plan.slo,
                                     outcome.result.num_dropped);
  BOLE_ASSIGN_OR_RETURN(const bench::MetricValues after, Scrape(flags));
  if (flags.metrics_url) {
    outcome.pairs = bench::CompareWithServer(
        outcome.report, bench::Difference(before, after),
        server.round_trip_seconds, /*speculation_told=*/!flags.http);
  }
  return outcome;
}

void PrintForPeople(const BenchFlags& flags, const bench::RunDescription& run,
                    const Outcome& outcome, double round_trip_seconds) {
  for (const auto& [name, value] : run) {
    std::printf("%-22s%s\n", name.c_str(), value.c_str());
  }
  std::printf("\n%s", bench::FormatReport(outcome.report).c_str());
  if (!outcome.pairs.empty()) {
    std::printf("\n%s",
                bench::FormatServerComparison(outcome.pairs, round_trip_seconds)
                    .c_str());
  }
  std::printf("\n%s\n", bench::Definitions());
  std::fflush(stdout);
  if (outcome.result.interrupted) {
    std::fprintf(stderr,
                 "\nInterrupted: what was in flight counts as CANCELLED, and "
                 "the rest was not sent.\n");
  }
  const std::string next =
      flags.out ? absl::StrCat("bole bench compare OTHER.json ", *flags.out)
                : "the same with --out FILE.json, which `bole bench compare` "
                  "reads";
  std::fprintf(stderr, "\nnext: %s\n", next.c_str());
}

int ExitCodeFor(const BenchFlags& flags, const Outcome& outcome) {
  if (outcome.result.interrupted) return kExitCancelled;
  const bench::Report& report = outcome.report;
  if (report.num_succeeded == 0) {
    return report.num_failed == 0 ? kExitUnavailable : kExitError;
  }
  const bool agree =
      std::all_of(outcome.pairs.begin(), outcome.pairs.end(),
                  [](const bench::MetricPair& pair) { return pair.agrees; });
  return flags.must_agree && !agree ? kExitError : kExitOk;
}

int Run(const BenchFlags& flags, Interrupt& interrupt) {
  const absl::StatusOr<Plan> plan = MakePlan(flags);
  if (!plan.ok()) return UsageError(Message(plan.status()));

  BenchServer server;
  int exit_code = AskWhatItIs(flags, interrupt, server);
  if (exit_code != kExitOk) return exit_code;
  const int longest = bench::LongestContext(plan->workload);
  if (server.max_context != 0 &&
      static_cast<uint32_t>(longest) > server.max_context) {
    std::fprintf(stderr,
                 "bole: the longest session has %d tokens, the model's context "
                 "%u: some requests will be refused; --length-scale shortens "
                 "them\n",
                 longest, server.max_context);
  }

  const absl::StatusOr<Outcome> outcome =
      Measure(flags, *plan, server, interrupt);
  if (!outcome.ok()) {
    std::fprintf(stderr, "bole: %s\n", Message(outcome.status()).c_str());
    return kExitError;
  }
  const bench::RunDescription run = Describe(flags, *plan, server);
  const auto json = bench::ReportJson(run, outcome->report, outcome->pairs,
                                      outcome->result.records);
  if (flags.connection.json) {
    std::printf("%s\n", json.dump().c_str());
  } else {
    PrintForPeople(flags, run, *outcome, server.round_trip_seconds);
  }
  exit_code = ExitCodeFor(flags, *outcome);
  if (flags.out) {
    exit_code = std::max(exit_code, WriteFile(*flags.out, json.dump() + "\n"));
  }
  if (flags.svg) {
    const std::string title =
        absl::StrCat(plan->workload.name, ", ", DescribeLoad(flags));
    exit_code = std::max(
        exit_code,
        WriteFile(*flags.svg, bench::ReportSvg(title, outcome->report,
                                               outcome->result.records)));
  }
  return exit_code;
}

}  // namespace

Command AddBenchCommand(CommandLine& app, Interrupt& interrupt) {
  auto flags = std::make_shared<BenchFlags>();
  CommandLine& command = app.AddCommand(
      "bench", "Send a load, and measure latencies, throughput and goodput.");
  flags->AddTo(command);
  const Command compare = AddBenchCompareCommand(command);
  command.Footer(absl::StrCat(bench::Definitions(), "\n\n", kExitCodesHelp));
  return [flags, &command, compare, &interrupt] {
    const bool comparing = command.command().has_value();
    return comparing ? compare() : Run(*flags, interrupt);
  };
}

}  // namespace bole
