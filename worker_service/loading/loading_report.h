// Prints the progress of loading a checkpoint.
#ifndef BOLE_WORKER_SERVICE_LOADING_LOADING_REPORT_H_
#define BOLE_WORKER_SERVICE_LOADING_LOADING_REPORT_H_

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "worker_service/model/weights.h"

namespace bole {

struct LoadingReportOptions {
  std::string whose;  // Follows "GB" in a line, if several load at once.
  std::function<std::chrono::steady_clock::time_point()> now =
      std::chrono::steady_clock::now;
};

// Every two seconds writes a line to `out`, which must outlive the result,
//   loading: 8.2 of 18.4 GB, 6.12 GB/s ...
// and one at the end,
//   loading: 18.4 GB in 3.01 s, 6.11 GB/s
// A GB is 10^9 bytes of matrices as they are stored; the rate is the mean since
// the start. A line that is due is written once the next matrix is loaded.
OnLoadProgress ReportLoading(std::FILE* out, LoadingReportOptions options = {});

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOADING_LOADING_REPORT_H_
