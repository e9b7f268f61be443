#include "worker_service/serving/request_spans.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "common/trace/plan_trace.h"
#include "common/trace/span_exporter.h"
#include "common/trace/trace_context.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker_service/loop/compute_loop.h"

namespace bole {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kStream = 4;
constexpr double kStepSeconds = 0.25;

// `nodes[b]` roots are as good as a tree to who counts nodes.
PackedForest ForestOf(const std::vector<int>& nodes) {
  std::vector<NodeList> lists;
  lists.reserve(nodes.size());
  for (const int count : nodes) {
    lists.push_back({.token = std::vector<int32_t>(count, 1),
                     .parent = std::vector<int32_t>(count, kNoParent)});
  }
  return *BuildForest(lists);
}

StepPlan ChunkOf(int tokens) {
  StepPlan plan;
  plan.prefills.push_back({.tokens = std::vector<int32_t>(tokens, 1)});
  return plan;
}

StepPlan TreesOf(const std::vector<int>& nodes) {
  StepPlan plan;
  plan.sequences.resize(nodes.size());
  plan.forest = ForestOf(nodes);
  return plan;
}

SequenceResult Emitted(int tokens, int accepted) {
  SequenceResult result;
  result.emitted.resize(tokens);
  result.accepted_drafts = accepted;
  return result;
}

StepResult ResultOf(std::vector<SequenceResult> sequences, int round = 0,
                    bool is_last = true) {
  StepResult result;
  result.sequences = std::move(sequences);
  result.round = round;
  result.is_last = is_last;
  return result;
}

class RequestSpansTest : public ::testing::Test {
 protected:
  TracedSequence Prefill(const SpanId& parent, int index = 0) const {
    return {.is_prefill = true,
            .index = index,
            .trace_id = trace_id_,
            .parent = parent};
  }
  TracedSequence Sequence(const SpanId& parent, int index = 0) const {
    return {.is_prefill = false,
            .index = index,
            .trace_id = trace_id_,
            .parent = parent};
  }
  void Plan(uint64_t sequence, const StepPlan& plan, const PlanTrace& trace) {
    spans_.OnPlan(kStream, sequence, plan, trace);
  }
  void Answer(uint64_t sequence, absl::StatusOr<StepResult> result,
              uint64_t stream = kStream) {
    spans_.OnOutcome({.stream = stream,
                      .sequence = sequence,
                      .result = std::move(result),
                      .step_seconds = kStepSeconds});
  }

  // The exported ones, by their names; ends the exporter.
  std::multimap<std::string, Json> Exported() {
    exporter_.reset();
    std::multimap<std::string, Json> spans;
    for (const std::string& body : bodies_) {
      const Json json = Json::parse(body);
      for (const Json& span :
           json["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
        spans.emplace(span["name"], span);
      }
    }
    return spans;
  }
  static Json Value(const Json& span, const std::string& key) {
    for (const Json& attribute : span["attributes"]) {
      if (attribute["key"] == key) return attribute["value"];
    }
    return nullptr;
  }
  static int64_t Ns(const Json& span, const char* which) {
    return std::stoll(span[which].get<std::string>());
  }

  const TraceId trace_id_ = NewTraceId();
  std::vector<std::string> bodies_;
  std::unique_ptr<SpanExporter> exporter_ = std::make_unique<SpanExporter>(
      SpanExporterOptions{.resource = {.service = "test", .instance = "1"},
                          .post =
                              [this](const std::string& body) {
                                bodies_.push_back(body);
                                return absl::OkStatus();
                              },
                          .interval = std::chrono::hours(1)});
  RequestSpans spans_{exporter_.get()};
};

TEST_F(RequestSpansTest, ChunksOfOneSpanAreOneSpan) {
  const SpanId parent = NewSpanId();
  Plan(1, ChunkOf(64), {.sequences = {Prefill(parent)}});
  Answer(1, StepResult());
  Plan(2, ChunkOf(20), {.sequences = {Prefill(parent)}});
  Answer(2, StepResult());
  spans_.End({parent});

  const auto spans = Exported();
  ASSERT_EQ(spans.size(), 1u);
  const Json span = spans.find("worker.prefill")->second;
  EXPECT_EQ(span["traceId"], ToHex(trace_id_));
  EXPECT_EQ(span["parentSpanId"], ToHex(parent));
  EXPECT_EQ(Value(span, "bole.tokens")["intValue"], "84");
  EXPECT_EQ(Value(span, "bole.chunks")["intValue"], "2");
  EXPECT_EQ(Value(span, "bole.engine_seconds")["doubleValue"],
            2 * kStepSeconds);
  EXPECT_GE(Ns(span, "endTimeUnixNano") - Ns(span, "startTimeUnixNano"),
            static_cast<int64_t>(kStepSeconds * 1e9));
}

TEST_F(RequestSpansTest, RoundsAreCountedForEachRequest) {
  const SpanId a = NewSpanId();
  const SpanId b = NewSpanId();
  Plan(1, TreesOf({5, 7, 3}), {.sequences = {Sequence(a, 0), Sequence(b, 2)}});
  Answer(1, ResultOf({Emitted(3, 2), Emitted(1, 0), Emitted(2, 1)}));
  Plan(2, TreesOf({4}), {.sequences = {Sequence(b)}, .ended = {a}});
  Answer(2, ResultOf({Emitted(1, 0)}));
  spans_.End({b});

  const auto spans = Exported();
  ASSERT_EQ(spans.count("worker.rounds"), 2u);
  for (const auto& [name, span] : spans) {
    const bool is_a = span["parentSpanId"] == ToHex(a);
    EXPECT_EQ(Value(span, "bole.rounds")["intValue"], is_a ? "1" : "2");
    EXPECT_EQ(Value(span, "bole.nodes")["intValue"], is_a ? "5" : "7");
    EXPECT_EQ(Value(span, "bole.tokens")["intValue"], "3");
    EXPECT_EQ(Value(span, "bole.accepted_drafts")["intValue"],
              is_a ? "2" : "1");
  }
}

TEST_F(RequestSpansTest, ALeaseCountsTheRoundsThatASequenceTakesPartIn) {
  const SpanId a = NewSpanId();
  const SpanId b = NewSpanId();
  Plan(1, TreesOf({5, 6}), {.sequences = {Sequence(a, 0), Sequence(b, 1)}});
  Answer(1, ResultOf({Emitted(2, 1), Emitted(1, 0)}, 0, /*is_last=*/false));
  spans_.End({a, b});  // Cancelled in mid-lease.
  StepResult next = ResultOf({Emitted(4, 3), {}}, 1);
  next.forest = ForestOf({9, 0});
  Answer(1, next);

  const auto spans = Exported();
  ASSERT_EQ(spans.size(), 2u);
  for (const auto& [name, span] : spans) {
    const bool is_a = span["parentSpanId"] == ToHex(a);
    EXPECT_EQ(Value(span, "bole.rounds")["intValue"], is_a ? "2" : "1");
    EXPECT_EQ(Value(span, "bole.nodes")["intValue"], is_a ? "14" : "6");
    EXPECT_EQ(Value(span, "bole.tokens")["intValue"], is_a ? "6" : "1");
  }
}

TEST_F(RequestSpansTest, ASpanWaitsForThePlansThatWereSentBeforeItsEnd) {
  const SpanId parent = NewSpanId();
  Plan(1, ChunkOf(8), {.sequences = {Prefill(parent)}});
  Plan(2, TreesOf({2}), {.sequences = {Sequence(parent)}});
  Plan(3, TreesOf({1}), {.ended = {parent}});
  Answer(1, StepResult());
  Answer(2, ResultOf({Emitted(1, 0)}));
  Answer(3, ResultOf({Emitted(1, 0)}));

  const auto spans = Exported();
  EXPECT_EQ(spans.size(), 2u);
  EXPECT_EQ(
      Value(spans.find("worker.prefill")->second, "bole.chunks")["intValue"],
      "1");
  EXPECT_EQ(
      Value(spans.find("worker.rounds")->second, "bole.rounds")["intValue"],
      "1");
}

TEST_F(RequestSpansTest, WhatDidNotRunIsNoSpan) {
  const SpanId refused = NewSpanId();
  const SpanId dropped = NewSpanId();
  Plan(1, ChunkOf(8), {.sequences = {Prefill(refused)}});
  Answer(1, absl::InvalidArgumentError("no"));
  Plan(2, ChunkOf(8), {.sequences = {Prefill(dropped)}});
  spans_.End({refused, dropped});
  spans_.EndAll();

  EXPECT_TRUE(Exported().empty());
}

TEST_F(RequestSpansTest, TheEndOfAStreamEndsItsSpans) {
  const SpanId ran = NewSpanId();
  Plan(1, ChunkOf(8), {.sequences = {Prefill(ran)}});
  Answer(1, StepResult());
  Plan(2, TreesOf({3}), {.sequences = {Sequence(ran)}});
  spans_.EndAll();
  // The stream that has ended answers late, while the next one runs.
  const SpanId next = NewSpanId();
  spans_.OnPlan(kStream + 1, 2, TreesOf({1}), {.sequences = {Sequence(next)}});
  Answer(2, ResultOf({Emitted(1, 0)}), kStream);
  spans_.End({next});
  Answer(2, ResultOf({Emitted(1, 0)}), kStream + 1);

  const auto spans = Exported();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans.find("worker.prefill")->second["parentSpanId"], ToHex(ran));
  const Json rounds = spans.find("worker.rounds")->second;
  EXPECT_EQ(rounds["parentSpanId"], ToHex(next));
  EXPECT_EQ(Value(rounds, "bole.rounds")["intValue"], "1");
}

TEST_F(RequestSpansTest, ASchedulerThatEndsNoneCostsABoundedAmount) {
  for (uint64_t i = 1; i <= RequestSpans::kMaxOpen + 10; ++i) {
    Plan(i, ChunkOf(1), {.sequences = {Prefill(NewSpanId())}});
    Answer(i, StepResult());
  }
  spans_.EndAll();

  // The exporter keeps as many of these spans as may wait, and drops the rest.
  EXPECT_EQ(Exported().size(), SpanExporterOptions{}.max_waiting);
}

TEST(RequestSpansWithoutExporterTest, DoNothing) {
  RequestSpans spans(nullptr);
  spans.OnPlan(1, 1, ChunkOf(1),
               {.sequences = {{.is_prefill = true, .parent = NewSpanId()}}});
  spans.OnOutcome({.stream = 1, .sequence = 1, .result = StepResult()});
  spans.EndAll();
}

}  // namespace
}  // namespace bole
