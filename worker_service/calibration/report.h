// A table of costs for people.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_REPORT_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_REPORT_H_

#include <string>

#include "common/cost_table.h"

namespace bole {

// What was measured, a line for each round that was held out, and how far off
// the predictions were.
std::string ReportOf(const CostTable& table);

// An SVG document: forwards by their rows for some numbers of requests, and
// drafts by the number of requests.
std::string ChartsOf(const CostTable& table);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_REPORT_H_
