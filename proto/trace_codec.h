// Traces of plans on their way over the wire.
#ifndef BOLE_PROTO_TRACE_CODEC_H_
#define BOLE_PROTO_TRACE_CODEC_H_

#include "absl/status/statusor.h"
#include "common/trace/plan_trace.h"
#include "proto/worker.pb.h"

namespace bole {

// Spans that a request may say have ended: as many as a plan has sequences,
// and as many prefills again.
inline constexpr int kMaxEndedSpans = 8192;

// Replaces `traced` and `ended_span_id` of the request, and nothing else of it.
// REQUIRES: at most kMaxEndedSpans have ended.
void EncodeTrace(const PlanTrace& trace, worker::v1::ExecuteRequest& request);

// INVALID_ARGUMENT, naming the field and its value: an id of the wrong length
// or of zeros, an index beyond the request's plan, or too many of either.
// COST: nothing is allocated for a request without traces.
absl::StatusOr<PlanTrace> DecodeTrace(
    const worker::v1::ExecuteRequest& request);

}  // namespace bole

#endif  // BOLE_PROTO_TRACE_CODEC_H_
