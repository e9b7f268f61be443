#include "clients/bench/arrivals.h"

#include <cmath>
#include <cstddef>
#include <random>

#include "common/check.h"

namespace bole::bench {
namespace {

// The gap before arrival `index`.
double Gap(const ArrivalOptions& options, int index, std::mt19937_64& random) {
  const double mean = 1 / options.rate;
  switch (options.pattern) {
    case Pattern::kPoisson:
      return std::exponential_distribution<double>(options.rate)(random);
    case Pattern::kGamma:
      return std::gamma_distribution<double>(options.burstiness,
                                             mean / options.burstiness)(random);
    case Pattern::kConstant:
      return mean;
    case Pattern::kBursts:
      return index > 0 && index % options.burst_size == 0
                 ? mean * options.burst_size
                 : 0;
  }
  return mean;
}

}  // namespace

std::vector<double> MakeArrivals(const ArrivalOptions& options, int count) {
  std::vector<double> arrivals;
  std::mt19937_64 random(options.seed);
  double time = 0;
  for (int i = 0; i < count; ++i) {
    if (!std::isinf(options.rate)) time += Gap(options, i, random);
    arrivals.push_back(time);
  }
  return arrivals;
}

std::vector<double> TraceArrivals(const Workload& workload, double speed,
                                  int count) {
  BOLE_CHECK(HasArrivals(workload));
  const std::vector<Session>& sessions = workload.sessions;
  const double last = *sessions.back().start_seconds;
  const double period = last + last / static_cast<double>(sessions.size());
  std::vector<double> arrivals;
  for (int i = 0; i < count; ++i) {
    const size_t index = static_cast<size_t>(i) % sessions.size();
    const size_t pass = static_cast<size_t>(i) / sessions.size();
    arrivals.push_back(
        (static_cast<double>(pass) * period + *sessions[index].start_seconds) /
        speed);
  }
  return arrivals;
}

}  // namespace bole::bench
