// Compares what the scheduler counted with what the client counted.
#ifndef BOLE_CLIENTS_BENCH_SERVER_METRICS_H_
#define BOLE_CLIENTS_BENCH_SERVER_METRICS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "clients/bench/report.h"

namespace bole::bench {

// Values of a page of Prometheus metrics by series, as they are written there:
// "bole_requests_total{code=\"OK\"}".
using MetricValues = std::map<std::string, double>;

// Lines that are not samples are skipped.
MetricValues ParseMetrics(std::string_view page);

// `after` minus `before`; series that `before` lacks count as 0 there.
MetricValues Difference(const MetricValues& before, const MetricValues& after);

// A number that both sides report.
struct MetricPair {
  std::string name;
  double client = 0;
  double server = 0;
  bool is_count = true;  // Else a mean in seconds.
  bool agrees = false;
};

// Counts should be equal, and the client's means should be within 5 % plus
// `round_trip_seconds` of the server's. `server` is the difference over the
// run, during which nobody else may use the server. The client's latencies
// count from sending.
//
// `speculation_told`: the answers reported speculation, so it is compared too.
//
// If the run was interrupted, or calls timed out, counts need not agree.
std::vector<MetricPair> CompareWithServer(const Report& report,
                                          const MetricValues& server,
                                          double round_trip_seconds,
                                          bool speculation_told = true);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_SERVER_METRICS_H_
