#include "clients/cli/bench_flags.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/bench/synthetic.h"
#include "clients/bench/workload_reader.h"
#include "common/status_macros.h"

namespace bole {
namespace {

using bench::Pattern;
using bench::Workload;

// Sessions of a synthetic workload for which no number is given.
constexpr int kUsualSessions = 100;
constexpr int kMaxLength = 10'000'000;

constexpr Choices<Pattern> kPatterns = {{"poisson", Pattern::kPoisson},
                                        {"gamma", Pattern::kGamma},
                                        {"constant", Pattern::kConstant},
                                        {"bursts", Pattern::kBursts}};

std::string PatternName(Pattern pattern) {
  for (const auto& [name, value] : kPatterns) {
    if (value == pattern) return name;
  }
  return "?";
}

void AddWorkloadFlags(BenchFlags& flags, CommandLine& command) {
  const Flag path = command.Add(
      "FILE", flags.path,
      "prompts, conversations or a trace; \"-\": stdin. See clients/README.md");
  command
      .Add("--synthetic", flags.synthetic,
           "IN:OUT: prompts of IN random ids, answers of OUT tokens")
      .Excludes(path);
  command
      .Add("--spread", flags.spread,
           "synthetic: lengths are even within this share of IN and OUT")
      .Range(0.0, 1.0);
  command
      .Add("--shared-prefix", flags.shared_prefix,
           "synthetic: ids that all prompts begin with")
      .Range(0, kMaxLength);
  command
      .Add("--length-scale", flags.length_scale,
           "factor on the lengths in a trace")
      .Positive();
  command.AddSwitch("--shuffle", flags.shuffle, "sessions in another order");
  command.Add("--load-seed", flags.load_seed,
              "of arrivals, ids and order; equal seeds, equal loads");
  command.AddSwitch("--raw", flags.raw,
                    "send texts without the model's chat template");
  command.AddSwitch("--recorded-history", flags.recorded_history,
                    "later turns follow the file's answers, not the model's");
  command
      .Add("--think", flags.think_seconds,
           "seconds between an answer and the next turn, where the file does "
           "not say")
      .NonNegative();
  command
      .Add("--think-scale", flags.think_scale,
           "factor on the think times in the file")
      .NonNegative();
}

void AddLoadFlags(BenchFlags& flags, CommandLine& command) {
  const Flag rate = command
                        .Add("--rate", flags.rate,
                             "open loop: sessions per second; inf: all at once")
                        .Range(1e-6, std::numeric_limits<double>::infinity());
  command.AddChoice("--pattern", flags.pattern, kPatterns, "of arrivals");
  command
      .Add("--burstiness", flags.burstiness,
           "gamma: shape of the gaps; below 1 is burstier than Poisson")
      .Positive();
  command.Add("--burst-size", flags.burst_size, "sessions of a burst")
      .Range(1, kMaxLength);
  command
      .Add("--trace-speed", flags.trace_speed,
           "without --rate and --concurrency: factor on the speed of the "
           "file's arrivals")
      .Positive();
  command
      .Add("--concurrency", flags.concurrency,
           "closed loop: so many sessions at any moment")
      .Range(1, kMaxLength)
      .Excludes(rate);
  command
      .Add("--ramp", flags.ramp_seconds,
           "closed loop: seconds over which the first sessions begin")
      .NonNegative();
  command
      .Add("--sessions,-n", flags.sessions,
           "sessions to send, each a conversation or one request; without it "
           "the file once, or 100")
      .Range(1, kMaxLength);
  command
      .Add("--duration", flags.duration,
           "no session begins after so many seconds")
      .Positive();
  command
      .Add("--max-in-flight", flags.max_in_flight,
           "requests at the server at most; others wait in the client")
      .Range(1, kMaxLength);
  command
      .Add("--retries", flags.max_retries,
           "of a refused request, each after the time that the server names, "
           "and of a broken stream, which goes on from what had come")
      .Range(0, kMaxLength);
  command
      .Add("--warmup", flags.warmup,
           "sessions that are sent before, and not counted")
      .Range(0, kMaxLength);
}

void AddConnectionFlags(BenchFlags& flags, CommandLine& command) {
  const Flag connections =
      command
          .Add("--connections", flags.connections,
               "TCP connections that streams are spread over")
          .Range(1, 1024);
  const Flag http = command
                        .Add("--http", flags.http,
                             "send to http://HOST:PORT, over OpenAI's API "
                             "instead of gRPC; a connection for each stream")
                        .Excludes(connections);
  command
      .Add("--vocab-size", flags.vocab_size,
           "ids below this are sent; without it what the server says")
      .Range(1, kMaxLength)
      .Needs(http);
}

void AddReportFlags(BenchFlags& flags, CommandLine& command) {
  command.Add(
      "--slo", flags.slo,
      "bounds of good requests, in milliseconds: ttft:500,tpot:50,e2e:10000");
  const Flag url =
      command.Add("--metrics-url", flags.metrics_url,
                  "the scheduler's metrics, http://HOST:PORT/metrics or "
                  "https, with the files and the token that calls have: its "
                  "counts and means are printed beside the client's");
  command
      .AddSwitch("--must-agree", flags.must_agree,
                 "exit with 1 if those differ")
      .Needs(url);
  command.Add("--out", flags.out, "write the report as JSON");
  command.Add("--svg", flags.svg, "draw the report");
}

absl::StatusOr<bench::SyntheticOptions> ParseSynthetic(
    const BenchFlags& flags) {
  const std::vector<std::string> lengths =
      absl::StrSplit(*flags.synthetic, ':');
  bench::SyntheticOptions options;
  if (lengths.size() != 2 ||
      !absl::SimpleAtoi(lengths[0], &options.input_tokens) ||
      !absl::SimpleAtoi(lengths[1], &options.output_tokens) ||
      std::min(options.input_tokens, options.output_tokens) < 1 ||
      std::max(options.input_tokens, options.output_tokens) > kMaxLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("--synthetic ", *flags.synthetic,
                     ": write two numbers of tokens, as 512:128"));
  }
  options.spread = flags.spread;
  options.shared_prefix = flags.shared_prefix;
  options.seed = flags.load_seed;
  return options;
}

// Arrivals that are certain to outlast `duration` at a rate; 10 standard
// deviations of a Poisson process beyond its mean.
int SessionsWithin(double duration, double rate, int burst_size) {
  const double mean = duration * rate;
  const double count = mean + 10 * std::sqrt(mean) + 10 + burst_size;
  return static_cast<int>(std::min(count, static_cast<double>(kMaxLength)));
}

int NumSessions(const BenchFlags& flags, int in_workload) {
  if (flags.sessions) return *flags.sessions;
  if (!flags.duration || (flags.rate && std::isinf(*flags.rate))) {
    return in_workload;
  }
  if (flags.concurrency) return std::numeric_limits<int>::max();
  if (flags.rate) {
    return SessionsWithin(*flags.duration, *flags.rate, flags.burst_size);
  }
  return in_workload;
}

}  // namespace

void BenchFlags::AddTo(CommandLine& command) {
  AddWorkloadFlags(*this, command);
  AddLoadFlags(*this, command);
  AddConnectionFlags(*this, command);
  AddReportFlags(*this, command);
  sampling.AddTo(command);
  targets.AddTo(command);
  connection.AddTo(command);
}

absl::StatusOr<Workload> LoadWorkload(const BenchFlags& flags) {
  if (flags.path.has_value() == flags.synthetic.has_value()) {
    return absl::InvalidArgumentError(
        "nothing to send: give a FILE, or --synthetic IN:OUT");
  }
  Workload workload;
  if (flags.path) {
    BOLE_ASSIGN_OR_RETURN(workload, bench::ReadWorkload(*flags.path));
  } else {
    constexpr int kMaxDistinct = 100'000;  // Then they come again.
    BOLE_ASSIGN_OR_RETURN(bench::SyntheticOptions options,
                          ParseSynthetic(flags));
    options.num_sessions =
        std::min(NumSessions(flags, kUsualSessions), kMaxDistinct);
    workload = bench::MakeSynthetic(options);
  }
  if (flags.length_scale != 1) {
    bench::ScaleLengths(flags.length_scale, workload);
  }
  if (flags.shuffle) bench::Shuffle(flags.load_seed, workload);
  if (!flags.sampling.max_tokens) return workload;
  for (bench::Session& session : workload.sessions) {
    for (bench::Turn& turn : session.turns) turn.output_tokens.reset();
  }
  return workload;
}

absl::StatusOr<bench::ScheduleOptions> MakeSchedule(const BenchFlags& flags,
                                                    const Workload& workload) {
  const int count =
      NumSessions(flags, static_cast<int>(workload.sessions.size()));
  bench::ScheduleOptions options;
  options.think_seconds = flags.think_seconds;
  options.think_scale = flags.think_scale;
  if (flags.duration) options.end = *flags.duration;
  if (flags.max_in_flight) options.max_in_flight = *flags.max_in_flight;
  if (flags.concurrency) {
    options.concurrency = *flags.concurrency;
    options.num_instances = count;
    options.ramp_seconds = flags.ramp_seconds;
  } else if (flags.rate) {
    options.arrivals = bench::MakeArrivals({.rate = *flags.rate,
                                            .pattern = flags.pattern,
                                            .burstiness = flags.burstiness,
                                            .burst_size = flags.burst_size,
                                            .seed = flags.load_seed},
                                           count);
  } else if (bench::HasArrivals(workload) && !flags.shuffle) {
    options.arrivals = bench::TraceArrivals(workload, flags.trace_speed, count);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "when should it be sent? Give --rate or --concurrency: ",
        flags.shuffle ? "sessions in another order have no arrivals"
                      : "the workload has no arrivals of its own"));
  }
  return options;
}

v1::SamplingParams BenchSampling(const BenchFlags& flags,
                                 const Workload& workload) {
  constexpr int kUsualMaxTokens = 128;
  v1::SamplingParams sampling = flags.sampling.ToProto();
  if (!sampling.has_max_tokens()) sampling.set_max_tokens(kUsualMaxTokens);
  if (bench::HasOutputLengths(workload)) sampling.set_ignore_eos(true);
  return sampling;
}

std::string DescribeLoad(const BenchFlags& flags) {
  std::string text;
  if (flags.concurrency) {
    text = absl::StrCat("closed loop of ", *flags.concurrency);
  } else if (flags.rate && std::isinf(*flags.rate)) {
    text = "all at once";
  } else if (flags.rate) {
    text = absl::StrCat(PatternName(flags.pattern), " arrivals, ", *flags.rate,
                        "/s");
    if (flags.pattern == Pattern::kGamma) {
      absl::StrAppend(&text, ", burstiness ", flags.burstiness);
    }
    if (flags.pattern == Pattern::kBursts) {
      absl::StrAppend(&text, " in bursts of ", flags.burst_size);
    }
  } else {
    text = absl::StrCat("the file's arrivals at ", flags.trace_speed,
                        " times their speed");
  }
  if (flags.duration) absl::StrAppend(&text, " for ", *flags.duration, " s");
  return text;
}

}  // namespace bole
