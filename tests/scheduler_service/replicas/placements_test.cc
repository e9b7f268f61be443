#include "scheduler_service/replicas/placements.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/requests.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::MakeTinyTokenizer;
using ::bole::testing::RandomPrompt;

class PlacementsTest : public ::testing::Test {
 protected:
  static StepLimits Limits() {
    return {.max_requests = 3,
            .max_nodes = 96,
            .max_nodes_per_tree = 32,
            .max_prefill_tokens = 256,
            .max_draft = {.top_k = 2, .depth = 3},
            .num_slots = 4,
            .num_pages = 10,
            .page_size = 16,
            .max_context = 200,
            .vocabulary = 256};
  }

  Job& Make(int prompt_length, int max_tokens) {
    now_ += std::chrono::seconds(1);
    jobs_.push_back(std::make_unique<Job>(
        MakeRequest(RandomPrompt(rng_, prompt_length), max_tokens, now_),
        *tokenizer_));
    return *jobs_.back();
  }
  Placement& Place(Job& job) {
    EXPECT_TRUE(placements_.HasRoomFor(job));
    placements_.Place(job);
    return placements_.Find(job);
  }
  Placement& Place(int prompt_length, int max_tokens) {
    return Place(Make(prompt_length, max_tokens));
  }
  int free_pages() const { return placements_.memory().pages().free; }
  int free_slots() const { return placements_.memory().slots().free; }

  // As if it had been prefilled and decoded to `committed`, with a proposal of
  // `nodes` in the end.
  static void Commit(Placement& placement, int committed, int nodes = 1) {
    while (placement.committed() < committed) {
      SequenceResult next;
      next.committed = placement.committed() +
                       (placement.in_prefill() ? placement.prefill_left() : 1);
      next.emitted.push_back({.token = 'x', .logprob = 0, .top = {}});
      next.proposal = ProposalTree{.parent = std::vector<int32_t>(nodes, 0),
                                   .token = std::vector<int32_t>(nodes, 'x'),
                                   .log_rho = std::vector<float>(nodes, 0)};
      next.proposal->parent[0] = kNoParent;
      placement.Advance(std::move(next));
    }
  }

  std::mt19937 rng_{1};
  TimePoint now_;
  std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  std::vector<std::unique_ptr<Job>> jobs_;
  // The drafter's rows: 1 + (3 - 1) * 2 = 5 beyond the tree's.
  Placements placements_{
      Limits(),
      {.draft = DraftShape{.top_k = 2, .depth = 3}, .max_nodes_per_tree = 8},
      /*max_running=*/100};
};

TEST_F(PlacementsTest, AJobGetsASlotAndThePagesOfItsPrefill) {
  Placement& placement = Place(26, 10);

  // 26 tokens, a node and 5 rows of the drafter.
  EXPECT_EQ(placement.pages().size(), 2);
  EXPECT_EQ(free_pages(), 8);
  EXPECT_EQ(free_slots(), 3);

  placements_.Drop(placement);
  EXPECT_EQ(free_pages(), 10);
  EXPECT_EQ(free_slots(), 4);
  EXPECT_EQ(placements_.Audit(), "");
}

TEST_F(PlacementsTest, TheWorkersRequestsBoundTheBatch) {
  for (int i = 0; i < 3; ++i) Place(3, 10);

  EXPECT_FALSE(placements_.HasRoomFor(Make(3, 10)));
}

TEST_F(PlacementsTest, ThoseThatRunKeepAPageToGrow) {
  Place(10, 100);

  EXPECT_FALSE(placements_.HasRoomFor(Make(138, 5)));  // Nine pages.
  EXPECT_TRUE(placements_.HasRoomFor(Make(122, 5)));   // Eight.
}

TEST_F(PlacementsTest, WhatCanNeverFitIsNamed) {
  EXPECT_TRUE(placements_.Fits(Make(50, 105)).ok());

  const absl::Status pages = placements_.Fits(Make(50, 106));
  EXPECT_TRUE(absl::IsInvalidArgument(pages));
  EXPECT_EQ(pages.message(),
            "prompt and max_tokens are 156 tokens and need 11 pages of KV "
            "memory, of which the worker has 10; ask for fewer tokens");
  const absl::Status context = placements_.Fits(Make(50, 151));
  EXPECT_EQ(context.message(),
            "prompt and max_tokens are 201 tokens, the worker's context is "
            "200; ask for fewer tokens");
  EXPECT_TRUE(absl::IsInvalidArgument(context));
}

TEST_F(PlacementsTest, GrowingTakesPagesAsTheyAreNeeded) {
  Placement& placement = Place(10, 100);
  EXPECT_EQ(placement.pages().size(), 1);
  Commit(placement, 11);

  // 11 tokens, a lone root, 5 rows of the drafter.
  EXPECT_TRUE(placements_.Grow().empty());
  EXPECT_EQ(placement.pages().size(), 2);
  EXPECT_TRUE(placements_.Grow().empty());
  EXPECT_EQ(placement.pages().size(), 2);
  EXPECT_EQ(placements_.Audit(), "");
}

TEST_F(PlacementsTest, TheLastToComeMakesRoom) {
  Placement& first = Place(40, 100);
  Placement& second = Place(40, 100);
  Placement& third = Place(3, 100);
  const std::vector<Job*> last = {&second.job(), &third.job()};
  Commit(first, 90);
  Commit(second, 60);

  // 96 and 66 rows are 6 and 5 pages: the third cannot stay, nor the second.
  EXPECT_EQ(placements_.Grow(), last);

  EXPECT_EQ(placements_.size(), 1u);
  EXPECT_EQ(free_slots(), 3);
  EXPECT_EQ(free_pages(), 4);
  EXPECT_EQ(placements_.Audit(), "");
  // Prompt and output are prefilled again.
  EXPECT_EQ(last[0]->prefill_target(), 60);
}

TEST_F(PlacementsTest, ATreeTakesFreePagesButEvictsNobody) {
  Placement& first = Place(40, 80);
  Placement& second = Place(70, 80);
  Commit(first, 74, /*nodes=*/8);

  // 74 tokens, a root and 5 rows are 5 pages, with a tree of 8 nodes 6; the
  // other 5 are the second's.
  EXPECT_TRUE(placements_.Grow().empty());
  EXPECT_EQ(first.pages().size(), 5);

  placements_.Drop(second);
  EXPECT_TRUE(placements_.Grow().empty());
  EXPECT_EQ(first.pages().size(), 6);
  EXPECT_EQ(placements_.Audit(), "");
}

TEST_F(PlacementsTest, OneThatNeedsEveryPageNeverLeaves) {
  // 155 tokens and 5 rows are all of the 10 pages.
  Placement& placement = Place(100, 55);
  ASSERT_TRUE(placements_.Fits(placement.job()).ok());
  for (int committed = 101; committed <= 153; ++committed) {
    SCOPED_TRACE(committed);
    Commit(placement, committed, /*nodes=*/32);
    EXPECT_TRUE(placements_.Grow().empty());
    EXPECT_GE(placement.pages().size() * 16, committed + 1 + 5);
  }
  EXPECT_EQ(placement.pages().size(), 10);
}

TEST_F(PlacementsTest, OneThatComesBackTakesItsPlaceByArrival) {
  Job& early = Make(3, 10);
  Job& late = Make(3, 10);
  Place(late);

  Place(early);

  EXPECT_EQ(&placements_.all()[0]->job(), &early);
  EXPECT_EQ(&placements_.all()[1]->job(), &late);
}

TEST_F(PlacementsTest, TheRoomIsWhatAPlacementTakes) {
  Place(26, 10);
  EXPECT_EQ(placements_.room().jobs, 2);
  EXPECT_EQ(placements_.room().pages, 7);  // Of 8, one for who runs.

  const int needed = placements_.PagesToPlace(Make(40, 10));
  const Placement& placement = Place(*jobs_.back());

  EXPECT_EQ(placement.pages().size(), needed);
  EXPECT_EQ(placements_.room().jobs, 1);
  EXPECT_EQ(placements_.room().pages, 7 - needed - 1);
  EXPECT_EQ(placements_.PrefillLeft(), 26 + 40);
}

}  // namespace
}  // namespace bole
