// A report for programs, and for `bole bench compare`.
#ifndef BOLE_CLIENTS_BENCH_REPORT_JSON_H_
#define BOLE_CLIENTS_BENCH_REPORT_JSON_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "clients/bench/report.h"
#include "clients/bench/request_record.h"
#include "clients/bench/server_metrics.h"
#include "nlohmann/json.hpp"

namespace bole::bench {

// What was run, by name: "workload", "load", "server", ...
using RunDescription = std::vector<std::pair<std::string, std::string>>;

// One object: "run", "counts", "failures", "rates", "latencies" (seconds),
// "server" (empty without metrics) and "requests", with a row for each. Its
// version is in "bole_bench".
nlohmann::ordered_json ReportJson(const RunDescription& run,
                                  const Report& report,
                                  std::span<const MetricPair> server,
                                  std::span<const RequestRecord> records);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_REPORT_JSON_H_
