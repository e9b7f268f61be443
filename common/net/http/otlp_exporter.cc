#include "common/net/http/otlp_exporter.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/http_url.h"
#include "common/net/http/http_post.h"
#include "common/net/pem_files.h"
#include "common/status_macros.h"
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

absl::Status Named(const char* flag, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(flag, " ", status.message()));
}

absl::Status CheckAuthorities(const OtlpCollector& collector,
                              const HttpUrl& url) {
  if (collector.ca_file.empty()) return absl::OkStatus();
  if (!url.tls) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--otlp-ca \"", collector.ca_file, "\": --otlp-endpoint \"",
        collector.endpoint, "\" is not https"));
  }
  return Named("--otlp-ca", CheckCertificates(collector.ca_file));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpanExporter>> StartOtlpExporter(
    const OtlpCollector& collector, const std::string& service,
    prometheus::Registry& registry,
    std::function<void(const std::string&)> note) {
  const auto counters = CountersIn(registry);
  if (collector.endpoint.empty()) {
    if (collector.ca_file.empty()) return nullptr;
    return absl::InvalidArgumentError(absl::StrCat(
        "--otlp-ca \"", collector.ca_file, "\": there is no --otlp-endpoint"));
  }
  const absl::StatusOr<HttpUrl> url = ParseHttpUrl(collector.endpoint);
  BOLE_RETURN_IF_ERROR(Named("--otlp-endpoint", url.status()));
  BOLE_RETURN_IF_ERROR(CheckAuthorities(collector, *url));
  return std::make_unique<SpanExporter>(SpanExporterOptions{
      .resource = {.service = service, .instance = InstanceName()},
      .post =
          [url = *url, ca_file = collector.ca_file](const std::string& body) {
            return PostJson(url, body, kPostTimeout, ca_file);
          },
      .count =
          [counters](SpanOutcome outcome, size_t count) {
            counters[static_cast<size_t>(outcome)]->Increment(
                static_cast<double>(count));
          },
      .note = std::move(note)});
}

}  // namespace bole
