// The flags of `bole bench`, and the load that they describe.
#ifndef BOLE_CLIENTS_CLI_BENCH_FLAGS_H_
#define BOLE_CLIENTS_CLI_BENCH_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "clients/bench/arrivals.h"
#include "clients/bench/schedule.h"
#include "clients/bench/workload.h"
#include "clients/cli/connection.h"
#include "clients/cli/sampling_flags.h"
#include "clients/cli/target_flags.h"
#include "common/command_line.h"
#include "proto/bole.pb.h"

namespace bole {

struct BenchFlags {
  ConnectionFlags connection;
  SamplingFlags sampling;
  TargetFlags targets;

  // What is sent.
  std::optional<std::string> path;
  std::optional<std::string> synthetic;  // "512:128"
  double spread = 0;
  double length_scale = 1;
  double think_seconds = 0;
  double think_scale = 1;
  uint64_t load_seed = 0;
  int shared_prefix = 0;
  bool shuffle = false;
  bool raw = false;
  bool recorded_history = false;

  // When it is sent.
  std::optional<double> rate;
  double burstiness = 1;
  double trace_speed = 1;
  bench::Pattern pattern = bench::Pattern::kPoisson;
  int burst_size = 8;
  std::optional<int> concurrency;
  double ramp_seconds = 0;
  std::optional<int> sessions;
  std::optional<double> duration;
  std::optional<int> max_in_flight;
  int max_retries = 0;
  int warmup = 0;
  int connections = 4;
  std::optional<std::string> http;  // The URL. Absent: gRPC.
  std::optional<int> vocab_size;    // Over HTTP, if the server does not say.

  // How it is reported.
  std::string slo;
  std::optional<std::string> metrics_url;
  bool must_agree = false;
  std::optional<std::string> out;
  std::optional<std::string> svg;

  void AddTo(CommandLine& command);
};

// The workload that the flags describe, ready to run. Errors name the flag or
// the file.
absl::StatusOr<bench::Workload> LoadWorkload(const BenchFlags& flags);

// When `workload` is sent.
//
// INVALID_ARGUMENT: no rate and no concurrency are given, and the file has no
// arrivals.
absl::StatusOr<bench::ScheduleOptions> MakeSchedule(
    const BenchFlags& flags, const bench::Workload& workload);

// How tokens are sampled: what the flags say; 128 tokens where neither they nor
// the file give a number; and no stop tokens where the file gives the lengths.
v1::SamplingParams BenchSampling(const BenchFlags& flags,
                                 const bench::Workload& workload);

// "Poisson arrivals, 4/s", for people.
std::string DescribeLoad(const BenchFlags& flags);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_BENCH_FLAGS_H_
