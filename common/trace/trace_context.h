// Which trace a request belongs to, as W3C's Trace Context says it.
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

// Of the header `traceparent`: its caller's span. Absent if it breaks the
// grammar of https://www.w3.org/TR/trace-context: "00-", 32 and 16 lower-case
// hex digits, two of flags, nothing more; of later versions what is known of
// them, "ff" being none.
std::optional<TraceContext> ParseTraceparent(std::string_view header);

// The header of a call within this span.
std::string ToTraceparent(const TraceContext& context);

// Lower-case hex digits.
std::string ToHex(const TraceId& id);
std::string ToHex(const SpanId& id);

// Random ids, never all zeros. Thread-safe.
TraceId NewTraceId();
SpanId NewSpanId();

// Whether a trace that nobody decided on is sampled: `rate` of all of them,
// always the same of one trace. 0 is none, and 1 is all.
bool IsSampled(const TraceId& id, double rate);

}  // namespace bole

#endif  // BOLE_COMMON_TRACE_TRACE_CONTEXT_H_
