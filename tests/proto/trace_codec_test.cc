#include "proto/trace_codec.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/trace/plan_trace.h"
#include "common/trace/trace_context.h"
#include "gtest/gtest.h"
#include "proto/worker.pb.h"
#include "tests/proto/codec_cases.h"

namespace bole {
namespace {

using ::bole::testing::BadCase;
using ::bole::testing::ExpectRefused;
using ::bole::testing::Reparse;
namespace wire = worker::v1;

PlanTrace SomeTrace() {
  return {.sequences = {{.is_prefill = true,
                         .index = 0,
                         .trace_id = NewTraceId(),
                         .parent = NewSpanId()},
                        {.is_prefill = false,
                         .index = 1,
                         .trace_id = NewTraceId(),
                         .parent = NewSpanId()}},
          .ended = {NewSpanId(), NewSpanId()}};
}

// One prefill and two sequences.
wire::ExecuteRequest RequestOf(const PlanTrace& trace) {
  wire::ExecuteRequest request;
  request.set_epoch(3);
  request.set_sequence(7);
  request.mutable_plan()->add_prefills();
  for (int i = 0; i < 2; ++i) request.mutable_plan()->add_sequences();
  EncodeTrace(trace, request);
  return request;
}

TEST(TraceCodecTest, TracesComeBackAsTheyWere) {
  const PlanTrace trace = SomeTrace();

  const absl::StatusOr<PlanTrace> decoded =
      DecodeTrace(Reparse(RequestOf(trace)));

  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_EQ(*decoded, trace);
}

TEST(TraceCodecTest, ARequestWithoutTracesIsAsItWasBeforeThereWereAny) {
  wire::ExecuteRequest request = RequestOf(SomeTrace());
  EncodeTrace({}, request);

  wire::ExecuteRequest bare;
  bare.set_epoch(3);
  bare.set_sequence(7);
  bare.mutable_plan()->add_prefills();
  for (int i = 0; i < 2; ++i) bare.mutable_plan()->add_sequences();
  EXPECT_EQ(request.SerializeAsString(), bare.SerializeAsString());
  EXPECT_TRUE(DecodeTrace(Reparse(request))->empty());
}

TEST(TraceCodecTest, ASignOfLifeTellsWhichSpansHaveEnded) {
  const PlanTrace trace{.ended = {NewSpanId()}};
  wire::ExecuteRequest request;
  EncodeTrace(trace, request);

  const absl::StatusOr<PlanTrace> decoded = DecodeTrace(Reparse(request));

  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_EQ(*decoded, trace);
}

TEST(TraceCodecTest, RefusesWhatIsNoTraceOfItsPlan) {
  using Request = wire::ExecuteRequest;
  const std::vector<BadCase<Request>> cases = {
      {"a prefill that is not there",
       [](Request& r) { r.mutable_traced(0)->set_index(1); },
       "traced 0: index is 1, not in [0, 0]"},
      {"a sequence that is not there",
       [](Request& r) { r.mutable_traced(1)->set_index(2); },
       "traced 1: index is 2, not in [0, 1]"},
      {"a negative index",
       [](Request& r) { r.mutable_traced(1)->set_index(-1); },
       "traced 1: index is -1"},
      {"no plan", [](Request& r) { r.clear_plan(); }, "traced: 2 of them"},
      {"more than the plan has",
       [](Request& r) {
         for (int i = 0; i < 2; ++i) *r.add_traced() = r.traced(0);
       },
       "traced: 4 of them; the limit is 3"},
      {"a trace id that is short",
       [](Request& r) { r.mutable_traced(0)->mutable_trace_id()->pop_back(); },
       "traced 0: trace_id has 15 bytes, not 16"},
      {"a trace id of zeros",
       [](Request& r) {
         r.mutable_traced(0)->set_trace_id(std::string(16, '\0'));
       },
       "traced 0: trace_id is all zeros"},
      {"no parent",
       [](Request& r) { r.mutable_traced(1)->clear_parent_span_id(); },
       "traced 1: parent_span_id has 0 bytes, not 8"},
      {"a parent of zeros",
       [](Request& r) {
         r.mutable_traced(1)->set_parent_span_id(std::string(8, '\0'));
       },
       "traced 1: parent_span_id is all zeros"},
      {"an ended span that is long",
       [](Request& r) { r.add_ended_span_id(std::string(9, 'x')); },
       "ended_span_id has 9 bytes, not 8"},
      {"too many ended spans",
       [](Request& r) {
         for (int i = 0; i < kMaxEndedSpans; ++i) {
           r.add_ended_span_id(r.ended_span_id(0));
         }
       },
       "ended_span_id: 8194 of them; the limit is 8192"},
  };

  ExpectRefused(cases, RequestOf(SomeTrace()), DecodeTrace);
}

}  // namespace
}  // namespace bole
