// When sessions of an open loop arrive.
#ifndef BOLE_CLIENTS_BENCH_ARRIVALS_H_
#define BOLE_CLIENTS_BENCH_ARRIVALS_H_

#include <cstdint>
#include <vector>

#include "clients/bench/workload.h"

namespace bole::bench {

enum class Pattern {
  kPoisson,   // Gaps are exponential, and independent.
  kGamma,     // Gaps have a gamma distribution with a shape of its own.
  kConstant,  // Equal gaps.
  kBursts,    // Several sessions at one moment, then nothing for a while.
};

struct ArrivalOptions {
  double rate = 1;  // Sessions per second on average; infinity: all at once.
  Pattern pattern = Pattern::kPoisson;
  // kGamma: the shape. 1 is Poisson, less is burstier, more is more regular.
  double burstiness = 1;
  int burst_size = 8;  // kBursts
  uint64_t seed = 0;
};

// The arrivals of `count` sessions, in seconds, ascending. A gap comes before
// the first session too, except with kBursts. Equal options give equal
// arrivals.
std::vector<double> MakeArrivals(const ArrivalOptions& options, int count);

// The arrivals in the file, `speed` times as fast. After its last session and
// one mean gap the file is replayed, until there are `count` arrivals.
//
// REQUIRES: HasArrivals(workload)
std::vector<double> TraceArrivals(const Workload& workload, double speed,
                                  int count);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_ARRIVALS_H_
