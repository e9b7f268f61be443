// A report as charts.
#ifndef BOLE_CLIENTS_BENCH_REPORT_SVG_H_
#define BOLE_CLIENTS_BENCH_REPORT_SVG_H_

#include <span>
#include <string>

#include "clients/bench/report.h"
#include "clients/bench/request_record.h"

namespace bole::bench {

// An SVG document: how the latencies are distributed, and, over the time of the
// run, the output tokens per second, the requests that arrived and had not
// ended, and those that streamed.
std::string ReportSvg(const std::string& title, const Report& report,
                      std::span<const RequestRecord> records);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_REPORT_SVG_H_
