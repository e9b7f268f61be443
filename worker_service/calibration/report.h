// Shows a cost table to people.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_REPORT_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_REPORT_H_

#include <string>

#include "common/cost_table.h"

namespace bole {

// A text that says what was measured, with a line for each held-out round, and
// how far off the predictions were.
std::string ReportOf(const CostTable& table);

// An SVG document that plots the time of forwards against their rows, for some
// numbers of requests, and the time of drafts against the number of requests.
std::string ChartsOf(const CostTable& table);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_REPORT_H_
