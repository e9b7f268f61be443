#include "tests/scheduler_service/simulated_worker.h"

#include "absl/status/status.h"
#include "common/check.h"
#include "common/sampling_params.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulated_text.h"

namespace bole::testing {

std::vector<int32_t> SimulatedOutput(std::span<const int32_t> prompt,
                                     int num_tokens) {
  SamplingParams greedy;
  greedy.temperature = 0;
  return simulation::ExpectedOutput(simulation::LetterText(), prompt, greedy,
                                    num_tokens);
}

std::vector<EmittedToken> SimulatedPromptLogprobs(
    std::span<const int32_t> prompt, int num_alternatives) {
  return simulation::ExpectedPromptLogprobs(
      simulation::LetterText(), prompt, num_alternatives,
      SimulatedWorker::SmallLimits().vocabulary);
}

StepLimits SimulatedWorker::SmallLimits() {
  return {.max_requests = 4,
          .max_nodes = 40,
          .max_nodes_per_tree = 16,
          .max_prefill_tokens = 128,
          .max_draft = {.top_k = 3, .depth = 4},
          .num_slots = 4,
          .num_pages = 48,
          .page_size = 16,
          .max_context = 512,
          .vocabulary = 256};
}

WorkerNews SimulatedWorker::Connect() {
  ++epoch_;
  last_plan_number_ = 0;
  disconnected_ = absl::OkStatus();
  engine_.emplace(simulation::SimulatedEngineOptions{
      .limits = limits_, .text = simulation::LetterText(), .accept = {0.8}});
  plans_.clear();
  const uint32_t version = costs_ == nullptr ? 0 : 2;
  return WorkerConnected{
      .epoch = epoch_,
      .description = {.model = model_,
                      .device = "none",
                      .version = "",
                      .protocol_version = copies_ ? 3 : version,
                      .limits = limits_,
                      .has_drafter = true,
                      .stop_tokens = {},
                      .costs = costs_}};
}

WorkerNews SimulatedWorker::Lose() {
  plans_.clear();
  return WorkerLost{epoch_, absl::UnavailableError("it was unplugged")};
}

void SimulatedWorker::Disconnect(uint64_t epoch, const absl::Status& why) {
  EXPECT_EQ(epoch, epoch_);
  EXPECT_FALSE(why.ok());
  disconnected_ = why;
  plans_.clear();
}

void SimulatedWorker::Send(uint64_t epoch, uint64_t plan_number,
                           const StepPlan& plan, const PlanTrace& trace) {
  EXPECT_EQ(epoch, epoch_);
  EXPECT_EQ(plan_number, ++last_plan_number_);
  const absl::Status status = Validate(plan, limits_);
  EXPECT_TRUE(status.ok()) << status;
  plans_.push_back({epoch, plan_number, plan});
  last_trace_ = trace;
  ended_spans_.insert(ended_spans_.end(), trace.ended.begin(),
                      trace.ended.end());
}

void SimulatedWorker::EndSpans(uint64_t epoch,
                               const std::vector<SpanId>& spans) {
  EXPECT_EQ(epoch, epoch_);
  ended_spans_.insert(ended_spans_.end(), spans.begin(), spans.end());
}

WorkerOutcome SimulatedWorker::Run() {
  BOLE_CHECK(has_plan());
  Sent& sent = plans_.front();
  WorkerOutcome outcome{sent.epoch, sent.plan_number,
                        engine_->RunRound(sent.plan)};
  EXPECT_EQ(engine_->num_problems(), 0) << engine_->last_problem();
  if (!engine_->FinishRound(sent.round++, sent.plan, *outcome.result)) {
    plans_.pop_front();
  }
  return outcome;
}

WorkerOutcome SimulatedWorker::Refuse(absl::Status why) {
  BOLE_CHECK(has_plan());
  const Sent& sent = plans_.front();
  WorkerOutcome outcome{sent.epoch, sent.plan_number, std::move(why)};
  plans_.pop_front();
  return outcome;
}

}  // namespace bole::testing
