// A report for people.
#ifndef BOLE_CLIENTS_BENCH_REPORT_TEXT_H_
#define BOLE_CLIENTS_BENCH_REPORT_TEXT_H_

#include <span>
#include <string>

#include "clients/bench/report.h"
#include "clients/bench/runner.h"
#include "clients/bench/server_metrics.h"

namespace bole::bench {

// Counts and rates, a table of latencies in milliseconds, why requests failed,
// and a warning if the client was late. Ends with a line feed.
std::string FormatReport(const Report& report);

// A table of both sides' numbers. Ends with a line feed.
std::string FormatServerComparison(std::span<const MetricPair> pairs,
                                   double round_trip_seconds);

// "12.0 s  340 ended, 2 failed  64 in flight, 8 streaming  812 tokens/s", the
// rate being that since `before`.
std::string FormatProgress(const Progress& before, const Progress& now);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_REPORT_TEXT_H_
