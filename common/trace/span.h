// A part of what was done for a request, with its times.
#ifndef BOLE_COMMON_TRACE_SPAN_H_
#define BOLE_COMMON_TRACE_SPAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/trace/trace_context.h"

namespace bole {

enum class SpanKind { kInternal, kServer };

using SpanValue = std::variant<int64_t, double, bool, std::string>;

struct Span {
  TraceId trace_id = {};
  SpanId span_id = {};
  std::optional<SpanId> parent = {};  // Absent: the trace begins with it.
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  int64_t start_ns = 0;  // Since 1970.
  int64_t end_ns = 0;
  std::vector<std::pair<std::string, SpanValue>> attributes = {};
  // What went wrong; empty: nothing.
  std::string error = {};
};

}  // namespace bole

#endif  // BOLE_COMMON_TRACE_SPAN_H_
