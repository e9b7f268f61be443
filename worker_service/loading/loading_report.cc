#include "worker_service/loading/loading_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace bole {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenLines(2);

std::string Line(const LoadProgress& progress, double seconds,
                 const std::string& whose) {
  const double done = static_cast<double>(progress.done_bytes) * 1e-9;
  const double all = static_cast<double>(progress.all_bytes) * 1e-9;
  const double rate = done / std::max(seconds, 1e-9);
  if (progress.done_bytes == progress.all_bytes) {
    return absl::StrFormat("loading: %.1f GB%s in %.2f s, %.2f GB/s\n", all,
                           whose, seconds, rate);
  }
  return absl::StrFormat("loading: %.1f of %.1f GB%s, %.2f GB/s ...\n", done,
                         all, whose, rate);
}

}  // namespace

OnLoadProgress ReportLoading(std::FILE* out, LoadingReportOptions options) {
  return [out, options = std::move(options), begin = Clock::time_point(),
          next = Clock::time_point()](const LoadProgress& progress) mutable {
    const Clock::time_point now = options.now();
    if (progress.done_bytes == 0) {
      begin = now;
      next = now + kBetweenLines;
      return;
    }
    if (progress.done_bytes < progress.all_bytes && now < next) return;
    next = now + kBetweenLines;
    const std::chrono::duration<double> took = now - begin;
    std::fputs(Line(progress, took.count(), options.whose).c_str(), out);
    std::fflush(out);
  };
}

}  // namespace bole
