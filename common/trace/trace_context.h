// The trace that a request belongs to, as defined by W3C Trace Context.
#ifndef BOLE_COMMON_TRACE_TRACE_CONTEXT_H_
#define BOLE_COMMON_TRACE_TRACE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bole {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

// A span of a trace. Neither id is all zeros.
struct TraceContext {
  TraceId trace_id = {};
  SpanId span_id = {};
  bool sampled = false;  // Its spans are kept.

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// The caller's span, read from the header `traceparent`. Absent if the header
// breaks the grammar of https://www.w3.org/TR/trace-context: "00-", 32 and 16
// lower-case hex digits, two digits of flags, and nothing more. A later version
// may have further fields, which are ignored; "ff" is not a version.
std::optional<TraceContext> ParseTraceparent(std::string_view header);

// The header `traceparent` of a call that is made within this span.
std::string ToTraceparent(const TraceContext& context);

// Lower-case hex digits.
std::string ToHex(const TraceId& id);
std::string ToHex(const SpanId& id);

// Random ids, never all zeros. Thread-safe.
TraceId NewTraceId();
SpanId NewSpanId();

// Whether to sample a trace for which no caller has decided. A share `rate` of
// all traces is sampled, and the answer for one trace is always the same. 0
// samples none, and 1 all.
bool IsSampled(const TraceId& id, double rate);

}  // namespace bole

#endif  // BOLE_COMMON_TRACE_TRACE_CONTEXT_H_
