// What a worker is told of the traces of its jobs.
#include <chrono>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/trace/plan_trace.h"
#include "common/trace/span_exporter.h"
#include "common/trace/trace_context.h"
#include "gtest/gtest.h"
#include "scheduler_service/watch/request_watch.h"
#include "tests/scheduler_service/replicas/replica_fixture.h"
#include "tests/scheduler_service/requests.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::ReplicaTest;

// A base, so that it outlives the jobs of the other one, which end their spans.
struct TestExporter {
  SpanExporter exporter_{
      {.resource = {.service = "test", .instance = "1"},
       .post = [](const std::string& /*body*/) { return absl::OkStatus(); }}};
};

class TracedReplicaTest : private TestExporter, public ReplicaTest {
 protected:
  // As the scheduler tells it.
  void OnAdvanced(Job& job, Job::Progress progress) override {
    job.request().watch->Advanced(now_,
                                  static_cast<int>(progress.tokens.size()));
    ReplicaTest::OnAdvanced(job, std::move(progress));
  }

  Job& PlaceTraced(double sample_rate, int prompt_length, int max_tokens) {
    auto request =
        MakeRequest(RandomPrompt(rng_, prompt_length), max_tokens, now_);
    request->watch =
        std::make_shared<CallWatch>(
            RequestWatcherOptions{.spans = &exporter_,
                                  .sample_rate = sample_rate},
            WatchedRequest{.id = "id",
                           .tenant = "",
                           .traceparent = "",
                           .arrival = std::chrono::steady_clock::now()})
            ->Choice(0);
    jobs_.push_back(std::make_unique<Job>(std::move(request), *tokenizer_));
    Job& job = *jobs_.back();
    replica_.Place(job, /*cached_elsewhere=*/0);
    job.request().watch->Placed(now_, "it");
    return job;
  }
  static SpanId SpanOf(const Job& job) {
    return job.request().watch->span()->span_id;
  }
};

TEST_F(TracedReplicaTest, AWorkerIsToldOfSampledJobsAndOfTheirEnd) {
  Connect();
  PlaceTraced(/*sample_rate=*/0, 20, 30);
  const Job& job = PlaceTraced(/*sample_rate=*/1, 20, 4);
  const SpanId prefill = SpanOf(job);
  Start();
  const TraceContext trace = *job.request().watch->span();
  EXPECT_EQ(worker_.last_trace(),
            (PlanTrace{.sequences = {{.is_prefill = true,
                                      .index = 1,
                                      .trace_id = trace.trace_id,
                                      .parent = prefill}}}));
  Answer();

  const SpanId rounds = SpanOf(job);
  EXPECT_NE(rounds, prefill);
  Start();
  EXPECT_EQ(worker_.last_trace(),
            (PlanTrace{.sequences = {{.is_prefill = false,
                                      .index = 1,
                                      .trace_id = trace.trace_id,
                                      .parent = rounds}},
                       .ended = {prefill}}));
  while (told_[job.id()].ends.empty()) {
    Answer();
    Start();
  }

  EXPECT_EQ(worker_.ended_spans(), (std::vector<SpanId>{prefill, rounds}));
  EXPECT_TRUE(worker_.last_trace().sequences.empty());
}

TEST_F(TracedReplicaTest, AnIdleWorkerIsToldOfTheLastEnd) {
  Connect();
  const Job& job = PlaceTraced(/*sample_rate=*/1, 20, 30);
  const SpanId prefill = SpanOf(job);
  Start();
  replica_.Drop(job);  // Cancelled, with its plan on the way.
  Answer();
  EXPECT_TRUE(worker_.ended_spans().empty());
  Start();

  EXPECT_FALSE(worker_.has_plan());
  EXPECT_EQ(worker_.ended_spans(), std::vector<SpanId>{prefill});
}

TEST_F(TracedReplicaTest, AnotherConnectionKnowsNothingOfTheLast) {
  Connect();
  const Job& job = PlaceTraced(/*sample_rate=*/1, 20, 30);
  Start();
  replica_.On(std::get<WorkerLost>(worker_.Lose()), now_);
  Connect();
  replica_.Place(*jobs_.back(), /*cached_elsewhere=*/0);
  Start();

  EXPECT_EQ(worker_.last_trace().sequences.at(0).parent, SpanOf(job));
  EXPECT_TRUE(worker_.ended_spans().empty());
}

}  // namespace
}  // namespace bole
