// A model on several ranks of the CPU, as a worker runs it.
#include "worker_service/ranks/ranked_model.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/engine/faulty_backend.h"
#include "worker_service/engine/memory_plan.h"
#include "worker_service/ranks/rank_part.h"

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

// Backends of which the second rank's does as it is told.
class FaultyRanks {
 public:
  FaultyRanks(int good_steps, Fault fault)
      : good_steps_(good_steps), fault_(fault) {}

  MakeBackend Maker() {
    return
        [this](const RankedModelOptions&, std::shared_ptr<Communicator> ranks) {
          const int rank = ranks->rank().index;
          auto backend = std::make_unique<FaultyBackend>(std::move(ranks));
          if (rank == 1) {
            backend->BreakAfter(good_steps_, fault_);
            broken_ = backend.get();
          }
          return backend;
        };
  }
  // After Load().
  void Mend() { broken_->Mend(); }

 private:
  const int good_steps_;
  const Fault fault_;
  FaultyBackend* broken_ = nullptr;
};

// Two ranks, of which the second one breaks in its second step.
class BrokenModelTest : public ::testing::Test {
 protected:
  absl::Status SecondStep(Fault fault) {
    RankedModelOptions options = SmallModel();
    options.num_ranks = 2;
    options.rank_deadline = std::chrono::milliseconds(500);
    FaultyRanks ranks(/*good_steps=*/1, fault);
    const auto model = RankedModel::LoadOn(ranks.Maker(), options);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return model.status();
    EXPECT_TRUE(Outcome(**model, SmallPlan()).ok());
    absl::Status status =
        (*model)->Step(SmallPlan(), [&](const StepResult&) { ++num_told_; });
    EXPECT_EQ((*model)->Step(SmallPlan(), [](const StepResult&) {}), status);
    ranks.Mend();  // The model waits for its threads.
    return status;
  }

  int num_told_ = 0;  // Rounds that the second step told.
};

TEST_F(BrokenModelTest, ARankThatFailsIsNamed) {
  EXPECT_EQ(SecondStep(Fault::kError),
            absl::UnavailableError("rank 1 of 2 has left: work on the GPU: "
                                   "cudaErrorIllegalAddress"));
  EXPECT_EQ(num_told_, 0);
}

TEST_F(BrokenModelTest, ARankThatStallsIsNamed) {
  const absl::Status status = SecondStep(Fault::kHang);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  EXPECT_EQ(num_told_, 0);
}

TEST_F(BrokenModelTest, WhatRanksSayDifferentlyIsToldToNobody) {
  EXPECT_EQ(SecondStep(Fault::kDiffer),
            absl::InternalError("rank 1 differs from rank 0 in round 0"));
  EXPECT_EQ(num_told_, 0);
}

// A CPU that says it were a GPU of 100 GiB, so much of it free.
class RoomyBackend final : public ReferenceBackend {
 public:
  RoomyBackend(std::shared_ptr<Communicator> ranks, size_t free_bytes)
      : ReferenceBackend(/*num_threads=*/1, std::move(ranks)),
        free_bytes_(free_bytes) {}
  std::optional<MemoryState> memory() const override {
    return MemoryState{.free_bytes = free_bytes_,
                       .total_bytes = size_t{100} << 30};
  }

 private:
  const size_t free_bytes_;
};

TEST(RankedModelTest, SizesAreThoseOfTheRankWithTheLeastRoom) {
  RankedModelOptions options = SmallModel();
  options.num_ranks = 2;
  options.memory_fraction = 1;
  options.engine.graphs = false;
  options.engine.max_nodes = 16;
  const auto plan_of = [&](size_t first, size_t second) {
    const auto model = RankedModel::LoadOn(
        [&](const RankedModelOptions&, std::shared_ptr<Communicator> ranks) {
          const size_t bytes = ranks->rank().index == 0 ? first : second;
          return std::make_unique<RoomyBackend>(std::move(ranks), bytes);
        },
        options);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return MemoryPlan();
    EXPECT_EQ((*model)->limits().num_pages, (*model)->memory().num_pages);
    EXPECT_TRUE(Outcome(**model, SmallPlan()).ok());
    return (*model)->memory();
  };
  const size_t much = size_t{1} << 30;
  const MemoryPlan all = plan_of(much, much);
  // So that there is no room for the checkpoints and for some of the pages.
  const size_t little = all.total() - all.weights - 3 * all.page_bytes() -
                        all.slot_bytes() * all.num_checkpoints;
  const MemoryPlan least = plan_of(little, little);
  ASSERT_LT(least.num_pages, all.num_pages);
  ASSERT_LT(least.num_checkpoints, all.num_checkpoints);

  for (const MemoryPlan& plan :
       {plan_of(little, much), plan_of(much, little)}) {
    EXPECT_EQ(plan.num_pages, least.num_pages);
    EXPECT_EQ(plan.num_checkpoints, least.num_checkpoints);
    EXPECT_EQ(plan.total(), least.total());
  }
}

TEST(RankedModelTest, ARankWithoutRoomIsNamed) {
  RankedModelOptions options = SmallModel();
  options.num_ranks = 2;
  const absl::Status status =
      RankedModel::LoadOn(
          [](const RankedModelOptions&, std::shared_ptr<Communicator> ranks) {
            const size_t bytes = ranks->rank().index == 0 ? size_t{1} << 36 : 0;
            return std::make_unique<RoomyBackend>(std::move(ranks), bytes);
          },
          options)
          .status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1 of 2 has left"),
                                      HasSubstr("no room for")));
}

}  // namespace
}  // namespace bole::testing
