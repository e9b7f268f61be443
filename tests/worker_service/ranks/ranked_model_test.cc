// A model on several ranks of the CPU, as a worker runs it.
#include "worker_service/ranks/ranked_model.h"

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "tests/worker_service/faulty_backend.h"
#include "worker_service/ranks/host_communicator.h"

namespace bole::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Fault = FaultyBackend::Fault;

RankedModelOptions SmallModel() {
  RankedModelOptions options{.name = "synthetic:tiny,noise=1",
                             .num_threads = 1};
  options.engine.max_requests = 2;
  options.engine.max_nodes_per_tree = 16;
  options.engine.max_prefill_tokens = 64;
  options.engine.max_context = 256;
  options.engine.max_draft = {.top_k = 2, .depth = 3};
  return options;
}

absl::StatusOr<StepResult> Outcome(RankedModel& model, const StepPlan& plan) {
  absl::StatusOr<StepResult> last = absl::InternalError("no round");
  const absl::Status status =
      model.Step(plan, [&](StepResult result) { last = std::move(result); });
  if (!status.ok()) return status;
  return last;
}

TEST(RankedModelTest, TwoRanksSayWhatOneSays) {
  RankedModelOptions options = SmallModel();
  const auto one = RankedModel::Load(options);
  ASSERT_TRUE(one.ok()) << one.status();
  options.num_ranks = 2;
  const auto two = RankedModel::Load(options);
  ASSERT_TRUE(two.ok()) << two.status();

  const auto whole = Outcome(**one, SmallPlan());
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto cut = Outcome(**two, SmallPlan());
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->prefills[0].emitted[0].token,
            whole->prefills[0].emitted[0].token);
  EXPECT_EQ((*one)->device(), "cpu, 1 thread");
  EXPECT_EQ((*two)->device(), "cpu, 1 thread on each of 2 ranks");
  // A rank has half of what is cut, and all of what is not.
  EXPECT_LT((*two)->memory().kv_pages, (*one)->memory().kv_pages);
  EXPECT_EQ(2 * (*two)->memory().page_bytes(), (*one)->memory().page_bytes());
}

TEST(RankedModelTest, WhatDoesNotDivideIsRefusedByName) {
  RankedModelOptions options = SmallModel();
  options.num_ranks = 3;
  const absl::Status status = RankedModel::Load(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("3 ranks"));
}

// Two ranks, of which the second one breaks in its second step.
class BrokenModelTest : public ::testing::Test {
 protected:
  absl::Status SecondStep(Fault fault) {
    RankedModelOptions options = SmallModel();
    options.rank_deadline = std::chrono::milliseconds(500);
    auto communicators = MakeHostCommunicators(2, options.rank_deadline);
    auto second = std::make_unique<FaultyBackend>(std::move(communicators[1]));
    second->BreakAfter(/*good_steps=*/1, fault);
    FaultyBackend& broken = *second;
    std::vector<std::unique_ptr<Backend>> backends;
    backends.push_back(
        std::make_unique<FaultyBackend>(std::move(communicators[0])));
    backends.push_back(std::move(second));
    const auto model = RankedModel::LoadOn(std::move(backends), options);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return model.status();
    EXPECT_TRUE(Outcome(**model, SmallPlan()).ok());
    // The first rank has said why by then; the step ends when all have.
    std::thread mender([&] {
      std::this_thread::sleep_for(4 * options.rank_deadline);
      broken.Mend();
    });
    absl::Status status =
        (*model)->Step(SmallPlan(), [&](const StepResult&) { ++num_told_; });
    mender.join();
    return status;
  }

  int num_told_ = 0;  // Rounds that the second step told.
};

TEST_F(BrokenModelTest, ARankThatFailsIsNamed) {
  const absl::Status status = SecondStep(Fault::kError);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("rank 1"), HasSubstr("cudaErrorIllegalAddress")));
  EXPECT_EQ(num_told_, 0);
}

TEST_F(BrokenModelTest, ARankThatStallsIsNamed) {
  const absl::Status status = SecondStep(Fault::kHang);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  EXPECT_EQ(num_told_, 0);
}

TEST_F(BrokenModelTest, WhatRanksSayDifferentlyIsToldToNobody) {
  const absl::Status status = SecondStep(Fault::kDiffer);
  EXPECT_EQ(status,
            absl::InternalError("rank 1 differs from rank 0 in round 0, "
                                "in prefill 0"));
  EXPECT_EQ(num_told_, 0);
}

}  // namespace
}  // namespace bole::testing
