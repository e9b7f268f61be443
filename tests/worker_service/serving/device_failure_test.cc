// An engine on a device that fails, or that minds which thread drives it.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker_service/engine/faulty_backend.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"
#include "worker_service/loop/compute_loop.h"

namespace bole::testing_support {
namespace {

using ::bole::testing::FaultyBackend;
using ::bole::testing::SmallPlan;
using ::testing::HasSubstr;

class DeviceFailureTest : public ::testing::Test {
 protected:
  DeviceFailureTest() {
    absl::StatusOr<LoadedModel> model = LoadModel("models/demo", backend_);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    auto engine = Engine::Create(model_.config, *model_.weights, backend_,
                                 EngineOptionsFor(Off(1), /*max_context=*/128,
                                                  model_.num_valid_tokens()));
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  FaultyBackend backend_;
  LoadedModel model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(DeviceFailureTest, AnEngineThatFailedTakesNoStep) {
  ASSERT_TRUE(engine_->Step(SmallPlan()).ok());
  backend_.BreakAfter(0, FaultyBackend::Fault::kError);
  const absl::Status first = engine_->Step(SmallPlan()).status();
  EXPECT_THAT(first.ToString(), HasSubstr("cudaErrorIllegalAddress"));
  backend_.Mend();
  const int uploads = backend_.num_uploads();

  EXPECT_EQ(engine_->Step(SmallPlan()).status(), first);
  EXPECT_EQ(backend_.num_uploads(), uploads);
}

TEST_F(DeviceFailureTest, AnInvalidPlanIsNoFailure) {
  StepPlan plan = SmallPlan();
  plan.prefills[0].tokens[0] = -1;

  EXPECT_TRUE(absl::IsInvalidArgument(engine_->Step(plan).status()));

  EXPECT_TRUE(engine_->Step(SmallPlan()).ok());
}

TEST_F(DeviceFailureTest, TheLoopEndsAndSaysThatTheWorkerHasToBeRestarted) {
  std::promise<absl::Status> failure;
  int num_outcomes = 0;
  ComputeLoop loop({.limits = engine_->limits(),
                    .has_drafter = engine_->has_drafter(),
                    .step =
                        [&](const StepPlan& plan, const OnRound& on_round) {
                          return engine_->StepValidated(plan, on_round);
                        },
                    .on_outcome =
                        [&](const ComputeOutcome& outcome) {
                          ++num_outcomes;
                          if (outcome.result.ok()) return;
                          failure.set_value(outcome.result.status());
                        }});
  backend_.BreakAfter(0, FaultyBackend::Fault::kError);
  loop.Open(1);
  for (int sequence = 1; sequence <= 3; ++sequence) {
    ASSERT_TRUE(loop.Submit(1, sequence, SmallPlan()).ok());
  }

  const absl::Status why = failure.get_future().get();

  EXPECT_TRUE(absl::IsInternal(why)) << why;
  EXPECT_THAT(std::string(why.message()),
              HasSubstr("plan 1 of stream 1 (1 prefill chunk of 3 tokens)"));
  EXPECT_THAT(std::string(why.message()), HasSubstr("restarted"));
  EXPECT_THAT(std::string(why.message()), HasSubstr("cudaErrorIllegalAddress"));
  loop.Stop();
  EXPECT_EQ(num_outcomes, 1);
}

// A thread that is not bound would use GPU 0, whichever holds the memory.
TEST_F(DeviceFailureTest, AStepBindsItsThreadBeforeItTouchesTheDevice) {
  ASSERT_EQ(backend_.bound_thread(), std::this_thread::get_id());
  std::thread::id stepping;

  std::thread([&] {
    stepping = std::this_thread::get_id();
    EXPECT_TRUE(engine_->Step(SmallPlan()).ok());
    EXPECT_EQ(backend_.bound_thread(), stepping);
  }).join();

  EXPECT_EQ(backend_.num_unbound_calls(), 0);
  engine_.reset();
  EXPECT_EQ(backend_.bound_thread(), std::this_thread::get_id());
  EXPECT_NE(stepping, std::this_thread::get_id());
}

}  // namespace
}  // namespace bole::testing_support
