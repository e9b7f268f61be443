// Exports the spans of a service to a collector, over OTLP/HTTP.
#ifndef BOLE_COMMON_NET_HTTP_OTLP_EXPORTER_H_
#define BOLE_COMMON_NET_HTTP_OTLP_EXPORTER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/trace/span_exporter.h"
#include "prometheus/registry.h"

namespace bole {

// Where a service's spans go.
struct OtlpCollector {
  // http://HOST:4318/v1/traces, or https; empty: nowhere.
  std::string endpoint = {};
  // For https: a PEM file with the authorities that may issue the collector's
  // certificate, read again for each batch. Empty: those of the system.
  std::string ca_file = {};
};

// Registers bole_spans_total, and starts the exporter to the collector; null
// without an endpoint. The spans are those of `service`, "bole-scheduler", in
// this process. `note`, which may be null, is called when the collector fails
// and when it is back. `registry` must outlive the exporter.
//
// INVALID_ARGUMENT, naming the flag and its value: a malformed endpoint,
// unusable authorities, or authorities for an endpoint without TLS.
absl::StatusOr<std::unique_ptr<SpanExporter>> StartOtlpExporter(
    const OtlpCollector& collector, const std::string& service,
    prometheus::Registry& registry,
    std::function<void(const std::string&)> note);

}  // namespace bole

#endif  // BOLE_COMMON_NET_HTTP_OTLP_EXPORTER_H_
