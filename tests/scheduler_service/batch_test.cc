#include "scheduler_service/batch.h"

#include <chrono>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "scheduler_service/number_pool.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/requests.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::MakeTinyTokenizer;
using ::bole::testing::RandomPrompt;

TEST(NumberPoolTest, GivesEveryNumberOnce) {
  NumberPool<PageId> pool(3);

  std::vector<bool> seen(3, false);
  for (int i = 0; i < 3; ++i) {
    const PageId id = pool.Take();
    EXPECT_FALSE(seen[id.value()]);
    seen[id.value()] = true;
    EXPECT_TRUE(pool.IsHeld(id));
  }

  EXPECT_EQ(pool.num_free(), 0);
  pool.Give(PageId(1));
  EXPECT_EQ(pool.Take(), PageId(1));
}

TEST(NumberPoolDeathTest, ANumberIsNotGivenBackTwice) {
  NumberPool<PageId> pool(3);
  const PageId id = pool.Take();
  pool.Give(id);

  EXPECT_DEATH(pool.Give(id), "IsHeld");
}

class BatchTest : public ::testing::Test {
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

  // In the order of their arrival.
  std::unique_ptr<Sequence> Make(int prompt_length, int max_tokens) {
    now_ += std::chrono::milliseconds(1);
    return std::make_unique<Sequence>(
        MakeRequest(RandomPrompt(rng_, prompt_length), max_tokens, now_),
        *tokenizer_);
  }
  Sequence* Admit(std::unique_ptr<Sequence> sequence) {
    Sequence* admitted = sequence.get();
    EXPECT_TRUE(batch_.Admit(sequence));
    EXPECT_EQ(batch_.Audit(), "");
    return admitted;
  }
  // As if it had been prefilled, and decoded to `committed`, with a proposal of
  // `nodes` in the end.
  static void Commit(Sequence& sequence, int committed, int nodes = 1) {
    while (sequence.committed() < committed) {
      SequenceResult next;
      next.committed = sequence.in_prefill() ? sequence.prefill_target()
                                             : sequence.committed() + 1;
      next.emitted.push_back({.token = 'x', .logprob = 0, .top = {}});
      next.proposal = ProposalTree{.parent = std::vector<int32_t>(nodes, 0),
                                   .token = std::vector<int32_t>(nodes, 'x'),
                                   .log_rho = std::vector<float>(nodes, 0)};
      next.proposal->parent[0] = kNoParent;
      sequence.Advance(std::move(next));
    }
  }

  std::mt19937 rng_{1};
  TimePoint now_;
  std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  // The drafter's rows: (3 - 1) * 2 = 4 beyond the tree's.
  Batch batch_{Limits(), DraftShape{.top_k = 2, .depth = 3}, /*max_rows=*/8,
               /*max_running=*/100};
};

TEST_F(BatchTest, ASequenceGetsASlotAndThePagesOfItsPrefill) {
  const Sequence* sequence = Admit(Make(27, 10));

  ASSERT_TRUE(sequence->slot.has_value());
  // 27 tokens, a node and 4 rows of the drafter.
  EXPECT_EQ(sequence->pages.size(), 2u);
  EXPECT_EQ(batch_.pages().free, 8);
  EXPECT_EQ(batch_.slots().free, 3);

  batch_.Remove(*sequence);
  EXPECT_EQ(batch_.pages().free, 10);
  EXPECT_EQ(batch_.slots().free, 4);
  EXPECT_EQ(batch_.Audit(), "");
}

TEST_F(BatchTest, TheWorkersRequestsBoundTheBatch) {
  for (int i = 0; i < 3; ++i) Admit(Make(3, 10));
  std::unique_ptr<Sequence> fourth = Make(3, 10);

  EXPECT_FALSE(batch_.Admit(fourth));
  ASSERT_NE(fourth, nullptr);
  EXPECT_FALSE(fourth->slot.has_value());
  EXPECT_TRUE(fourth->pages.empty());
}

TEST_F(BatchTest, AdmissionLeavesThoseThatRunAPageToGrow) {
  Admit(Make(11, 100));
  std::unique_ptr<Sequence> nine_pages = Make(139, 5);
  std::unique_ptr<Sequence> eight_pages = Make(123, 5);

  EXPECT_FALSE(batch_.Admit(nine_pages));
  EXPECT_TRUE(batch_.Admit(eight_pages));
}

TEST_F(BatchTest, WhatCanNeverFitIsNamed) {
  EXPECT_TRUE(batch_.Fits(*Make(50, 106)).ok());

  const absl::Status pages = batch_.Fits(*Make(50, 107));
  EXPECT_TRUE(absl::IsInvalidArgument(pages));
  EXPECT_EQ(pages.message(),
            "prompt and max_tokens are 157 tokens and need 11 pages of KV "
            "memory, of which the worker has 10; ask for fewer tokens");
  const absl::Status context = batch_.Fits(*Make(50, 151));
  EXPECT_EQ(context.message(),
            "prompt and max_tokens are 201 tokens, the worker's context is "
            "200; ask for fewer tokens");
  EXPECT_TRUE(absl::IsInvalidArgument(context));
}

TEST_F(BatchTest, GrowingTakesPagesAsTheyAreNeeded) {
  Sequence* sequence = Admit(Make(10, 100));
  EXPECT_EQ(sequence->pages.size(), 1u);
  Commit(*sequence, 12);

  // 12 tokens, a lone root, 4 rows of the drafter.
  EXPECT_TRUE(batch_.Grow().empty());
  EXPECT_EQ(sequence->pages.size(), 2u);
  EXPECT_TRUE(batch_.Grow().empty());
  EXPECT_EQ(sequence->pages.size(), 2u);
  EXPECT_EQ(batch_.Audit(), "");
}

TEST_F(BatchTest, TheLastToComeMakesRoom) {
  Sequence* first = Admit(Make(40, 100));
  Sequence* second = Admit(Make(40, 100));
  const Sequence* third = Admit(Make(3, 100));
  Commit(*first, 90);
  Commit(*second, 60);

  const std::vector<std::unique_ptr<Sequence>> evicted = batch_.Grow();

  // 95 and 65 rows are 6 and 5 pages: the third cannot stay, nor the second.
  ASSERT_EQ(evicted.size(), 2u);
  EXPECT_EQ(evicted[0].get(), second);
  EXPECT_EQ(evicted[1].get(), third);
  for (const auto& sequence : evicted) {
    EXPECT_FALSE(sequence->slot.has_value());
    EXPECT_TRUE(sequence->pages.empty());
    EXPECT_EQ(sequence->committed(), 0);
  }
  EXPECT_TRUE(evicted[0]->in_prefill());
  EXPECT_EQ(batch_.running().size(), 1u);
  EXPECT_EQ(batch_.Audit(), "");
}

TEST_F(BatchTest, ATreeTakesFreePagesButEvictsNobody) {
  Sequence* first = Admit(Make(40, 80));
  const Sequence* second = Admit(Make(70, 80));
  Commit(*first, 75, /*nodes=*/8);

  // 75 tokens, a root and 4 rows are 5 pages, with a tree of 8 nodes 6; the
  // other 5 are the second's.
  EXPECT_TRUE(batch_.Grow().empty());
  EXPECT_EQ(first->pages.size(), 5u);

  batch_.Remove(*second);
  EXPECT_TRUE(batch_.Grow().empty());
  EXPECT_EQ(first->pages.size(), 6u);
  EXPECT_EQ(batch_.Audit(), "");
}

TEST_F(BatchTest, OneThatNeedsEveryPageNeverLeaves) {
  // 156 tokens and 4 rows are all of the 10 pages.
  Sequence* sequence = Admit(Make(100, 56));
  ASSERT_TRUE(batch_.Fits(*sequence).ok());
  for (int committed = 101; committed <= 154; ++committed) {
    SCOPED_TRACE(committed);
    Commit(*sequence, committed, /*nodes=*/32);
    EXPECT_TRUE(batch_.Grow().empty());
    EXPECT_GE(sequence->pages.size() * 16, committed + 1u + 4u);
  }
  EXPECT_EQ(sequence->pages.size(), 10u);
}

TEST_F(BatchTest, OneThatComesBackTakesItsPlaceByArrival) {
  std::unique_ptr<Sequence> early = Make(3, 10);
  const Sequence* late = Admit(Make(3, 10));

  const Sequence* back = Admit(std::move(early));

  EXPECT_EQ(batch_.running()[0].get(), back);
  EXPECT_EQ(batch_.running()[1].get(), late);
}

TEST_F(BatchTest, TheAuditSeesWhatIsHeldTwiceAndWhatIsLost) {
  Sequence* first = Admit(Make(3, 10));
  Sequence* second = Admit(Make(3, 10));
  const PageId mine = second->pages[0];

  second->pages[0] = first->pages[0];
  EXPECT_NE(batch_.Audit(), "");
  second->pages.clear();
  EXPECT_NE(batch_.Audit(), "");
  second->pages = {mine};
  EXPECT_EQ(batch_.Audit(), "");
  std::swap(second->slot, first->slot);
  EXPECT_EQ(batch_.Audit(), "");
  second->slot = first->slot;
  EXPECT_NE(batch_.Audit(), "");
}

}  // namespace
}  // namespace bole
