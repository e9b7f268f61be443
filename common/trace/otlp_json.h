// Spans in the JSON of OTLP/HTTP.
#ifndef BOLE_COMMON_TRACE_OTLP_JSON_H_
#define BOLE_COMMON_TRACE_OTLP_JSON_H_

#include <span>
#include <string>

#include "common/trace/span.h"

namespace bole {

// The process that made the spans.
struct SpanResource {
  std::string service;   // "bole-scheduler".
  std::string instance;  // Among the processes of the service.
};

// An ExportTraceServiceRequest of opentelemetry.proto.collector.trace.v1 in
// OTLP's JSON: ids in hex digits, 64-bit numbers as strings, enums as numbers.
// Invalid UTF-8 in texts becomes U+FFFD.
std::string ToOtlpJson(const SpanResource& resource,
                       std::span<const Span> spans);

}  // namespace bole

#endif  // BOLE_COMMON_TRACE_OTLP_JSON_H_
