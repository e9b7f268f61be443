// Reports what happens to requests to a collector of spans and to the log.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_REQUEST_WATCHER_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_REQUEST_WATCHER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/log/log.h"
#include "common/net/http/otlp_exporter.h"
#include "common/trace/span_exporter.h"
#include "prometheus/registry.h"
#include "scheduler_service/watch/request_watch.h"

namespace bole {

struct WatchOptions {
  OtlpCollector collector = {};  // Without one, no spans are kept.
  // The share, 0 to 1, of requests that are traced if their callers do not say.
  double sample_rate = 0;
  const Log* log = nullptr;  // Null: no log. Must outlive the watcher.
  LoggedRequests logged = LoggedRequests::kNone;
};

// Thread-safe.
class RequestWatcher {
 public:
  // Registers bole_spans_total. `note`, which may be null, is called when the
  // collector fails and when it works again. Errors are those of
  // StartOtlpExporter(). `registry` must outlive the watcher.
  static absl::StatusOr<std::unique_ptr<RequestWatcher>> Start(
      const WatchOptions& options, prometheus::Registry& registry,
      std::function<void(const std::string&)> note);

  // Whether requests are traced or logged.
  bool is_watching() const {
    return options_.spans != nullptr ||
           options_.logged != LoggedRequests::kNone;
  }
  // REQUIRES: is_watching(). The watcher must outlive what is returned.
  std::shared_ptr<CallWatch> Watch(WatchedRequest request) const;

 private:
  RequestWatcher() = default;

  RequestWatcherOptions options_;
  std::unique_ptr<SpanExporter> exporter_;  // May be null.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_REQUEST_WATCHER_H_
