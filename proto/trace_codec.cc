#include "proto/trace_codec.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/trace/trace_context.h"
#include "proto/codec_parts.h"

namespace bole {
namespace {

namespace wire = worker::v1;

template <typename Id>
std::string BytesOf(const Id& id) {
  return std::string(id.begin(), id.end());
}

template <typename Id>
absl::StatusOr<Id> DecodeId(const std::string& bytes, const std::string& who,
                            const char* field) {
  Id id = {};
  if (bytes.size() != id.size()) {
    return codec::Error(who, absl::StrCat(field, " has ", bytes.size(),
                                          " bytes, not ", id.size()));
  }
  std::copy(bytes.begin(), bytes.end(), id.begin());
  if (id == Id()) {
    return codec::Error(who, absl::StrCat(field, " is all zeros"));
  }
  return id;
}

absl::StatusOr<TracedSequence> DecodeTraced(const wire::TracedSequence& message,
                                            const wire::StepPlan& plan,
                                            const std::string& who) {
  const int count =
      message.is_prefill() ? plan.prefills_size() : plan.sequences_size();
  BOLE_RETURN_IF_ERROR(
      codec::CheckInRange(who, "index", message.index(), 0, count - 1));
  TracedSequence traced{.is_prefill = message.is_prefill(),
                        .index = message.index()};
  BOLE_ASSIGN_OR_RETURN(traced.trace_id,
                        DecodeId<TraceId>(message.trace_id(), who, "trace_id"));
  BOLE_ASSIGN_OR_RETURN(
      traced.parent,
      DecodeId<SpanId>(message.parent_span_id(), who, "parent_span_id"));
  return traced;
}

}  // namespace

void EncodeTrace(const PlanTrace& trace, wire::ExecuteRequest& request) {
  request.clear_traced();
  request.clear_ended_span_id();
  for (const TracedSequence& traced : trace.sequences) {
    wire::TracedSequence& message = *request.add_traced();
    message.set_is_prefill(traced.is_prefill);
    message.set_index(traced.index);
    message.set_trace_id(BytesOf(traced.trace_id));
    message.set_parent_span_id(BytesOf(traced.parent));
  }
  for (const SpanId& id : trace.ended) request.add_ended_span_id(BytesOf(id));
}

absl::StatusOr<PlanTrace> DecodeTrace(const wire::ExecuteRequest& request) {
  const wire::StepPlan& plan = request.plan();
  const int64_t count =
      int64_t{plan.prefills_size()} + int64_t{plan.sequences_size()};
  BOLE_RETURN_IF_ERROR(
      codec::CheckAtMost("traced", "of them", request.traced_size(), count));
  BOLE_RETURN_IF_ERROR(codec::CheckAtMost("ended_span_id", "of them",
                                          request.ended_span_id_size(),
                                          kMaxEndedSpans));
  PlanTrace trace;
  trace.sequences.reserve(request.traced_size());
  for (int i = 0; i < request.traced_size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(
        const TracedSequence traced,
        DecodeTraced(request.traced(i), plan, absl::StrCat("traced ", i)));
    trace.sequences.push_back(traced);
  }
  trace.ended.reserve(request.ended_span_id_size());
  for (const std::string& bytes : request.ended_span_id()) {
    BOLE_ASSIGN_OR_RETURN(
        const SpanId id,
        DecodeId<SpanId>(bytes, "the request", "ended_span_id"));
    trace.ended.push_back(id);
  }
  return trace;
}

}  // namespace bole
