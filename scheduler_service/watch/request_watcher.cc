#include "scheduler_service/watch/request_watcher.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/http_url.h"
#include "common/net/http/http_post.h"
#include "prometheus/counter.h"

namespace bole {
namespace {

constexpr std::chrono::seconds kPostTimeout(5);

// Among processes: the machine's name and the number there.
std::string InstanceName() {
  std::array<char, 256> host = {};
  gethostname(host.data(), host.size() - 1);
  return absl::StrCat(host.data(), ":", getpid());
}

// By SpanOutcome.
std::array<prometheus::Counter*, 3> CountersIn(prometheus::Registry& registry) {
  auto& family = prometheus::BuildCounter()
                     .Name("bole_spans_total")
                     .Help(
                         "Spans of traces, by outcome: exported (to the "
                         "collector), dropped (because too many waited), "
                         "failed (with their batch).")
                     .Register(registry);
  return {&family.Add({{"outcome", "exported"}}),
          &family.Add({{"outcome", "dropped"}}),
          &family.Add({{"outcome", "failed"}})};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RequestWatcher>> RequestWatcher::Start(
    const WatchOptions& options, prometheus::Registry& registry,
    std::function<void(const std::string&)> note) {
  std::unique_ptr<RequestWatcher> watcher(new RequestWatcher());
  const auto counters = CountersIn(registry);
  if (!options.otlp_endpoint.empty()) {
    const absl::StatusOr<HttpUrl> url = ParseHttpUrl(options.otlp_endpoint);
    if (!url.ok()) {
      return absl::Status(
          url.status().code(),
          absl::StrCat("--otlp-endpoint ", url.status().message()));
    }
    if (url->tls) {
      return absl::InvalidArgumentError(
          absl::StrCat("--otlp-endpoint \"", options.otlp_endpoint,
                       "\": collectors are spoken to over http:// alone"));
    }
    watcher->exporter_ = std::make_unique<SpanExporter>(SpanExporterOptions{
        .resource = {.service = "bole-scheduler", .instance = InstanceName()},
        .post =
            [url = *url](const std::string& body) {
              return PostJson(url, body, kPostTimeout);
            },
        .count =
            [counters](SpanOutcome outcome, size_t count) {
              counters[static_cast<size_t>(outcome)]->Increment(
                  static_cast<double>(count));
            },
        .note = std::move(note)});
  }
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
