#include "scheduler_service/watch/request_watcher.h"

#include <utility>

#include "common/status_macros.h"

namespace bole {

absl::StatusOr<std::unique_ptr<RequestWatcher>> RequestWatcher::Start(
    const WatchOptions& options, prometheus::Registry& registry,
    std::function<void(const std::string&)> note) {
  std::unique_ptr<RequestWatcher> watcher(new RequestWatcher());
  BOLE_ASSIGN_OR_RETURN(watcher->exporter_,
                        StartOtlpExporter(options.collector, "bole-scheduler",
                                          registry, std::move(note)));
  watcher->options_ = {.spans = watcher->exporter_.get(),
                       .sample_rate = options.sample_rate,
                       .log = options.log,
                       .logged = options.logged};
  return watcher;
}

std::shared_ptr<CallWatch> RequestWatcher::Watch(WatchedRequest request) const {
  return std::make_shared<CallWatch>(options_, std::move(request));
}

}  // namespace bole
