#include "common/step.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/draft_shape.h"
#include "common/ids.h"
#include "common/packed_forest.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr int kHuge = std::numeric_limits<int>::max();

StepLimits Limits() {
  return {.max_requests = 4,
          .max_nodes = 10,
          .max_nodes_per_tree = 6,
          .max_prefill_tokens = 64,
          .max_draft = {.top_k = 2, .depth = 3},
          .num_slots = 6,
          .num_pages = 20,
          .page_size = 8,
          .max_context = 40,
          .vocabulary = 100};
}

std::vector<PageId> Pages(const std::vector<int>& numbers) {
  std::vector<PageId> pages;
  pages.reserve(numbers.size());
  for (const int number : numbers) pages.emplace_back(number);
  return pages;
}

PackedForest Forest(const std::vector<NodeList>& trees) {
  return *BuildForest(trees);
}

// The first chunk of a prompt, the last chunk of another, a tree of three nodes
// and a lone root. Prefill 1 and sequence 0 share page 2, which nobody writes.
StepPlan MixedPlan() {
  StepPlan plan;
  plan.prefills = {{.sequence = {.slot = SlotId(0),
                                 .committed = 0,
                                 .pages = Pages({0, 1}),
                                 .prompt_length = 12},
                    .tokens = {1, 2, 3, 4, 5},
                    .next_token = 6},
                   {.sequence = {.slot = SlotId(1),
                                 .committed = 8,
                                 .pages = Pages({2, 3}),
                                 .prompt_length = 11},
                    .tokens = {7, 8, 9}}};
  plan.sequences = {{.slot = SlotId(2),
                     .committed = 8,
                     .pages = Pages({2, 4}),
                     .stop_tokens = {1, 2},
                     .prompt_length = 7},
                    {.slot = SlotId(3),
                     .committed = 1,
                     .pages = Pages({5}),
                     .prompt_length = 1}};
  plan.forest = Forest({{.token = {10, 11, 12}, .parent = {kNoParent, 0, 0}},
                        {.token = {13}, .parent = {kNoParent}}});
  plan.draft = DraftShape{.top_k = 2, .depth = 3};
  return plan;
}

TEST(StepTest, AMixedPlanIsAccepted) {
  EXPECT_TRUE(Validate(MixedPlan(), Limits()).ok())
      << Validate(MixedPlan(), Limits());
}

TEST(StepTest, EachPartMayBeMissing) {
  StepPlan no_prefills = MixedPlan();
  no_prefills.prefills.clear();
  StepPlan no_forest = MixedPlan();
  no_forest.sequences.clear();
  no_forest.forest = {};
  StepPlan no_draft = MixedPlan();
  no_draft.draft.reset();

  for (const StepPlan& plan : {StepPlan(), no_prefills, no_forest, no_draft}) {
    EXPECT_TRUE(Validate(plan, Limits()).ok()) << Validate(plan, Limits());
  }
}

struct BrokenPlan {
  std::string message;
  std::function<void(StepPlan&)> break_it;
};

void ExpectRefusals(const std::vector<BrokenPlan>& cases) {
  for (const BrokenPlan& broken : cases) {
    StepPlan plan = MixedPlan();

    broken.break_it(plan);

    EXPECT_EQ(Validate(plan, Limits()),
              absl::InvalidArgumentError(broken.message));
  }
}

TEST(StepTest, ADraftBeyondTheLimitsIsRefused) {
  ExpectRefusals({
      {"draft: top_k is 0, not in [1, 2]",
       [](StepPlan& p) { p.draft->top_k = 0; }},
      {"draft: top_k is 3, not in [1, 2]",
       [](StepPlan& p) { p.draft->top_k = 3; }},
      {"draft: depth is 0, not in [1, 3]",
       [](StepPlan& p) { p.draft->depth = 0; }},
      {"draft: depth is 4, not in [1, 3]",
       [](StepPlan& p) { p.draft->depth = 4; }},
  });
}

TEST(StepTest, AChunkThatCannotRunIsRefused) {
  ExpectRefusals({
      {"plan: number of prefills is 5, not in [0, 4]",
       [](StepPlan& p) { p.prefills.resize(5); }},
      {"prefill 0: number of tokens is 0, not in [1, 64]",
       [](StepPlan& p) { p.prefills[0].tokens.clear(); }},
      // The first has taken 5 of the 64.
      {"prefill 1: number of tokens is 60, not in [1, 59]",
       [](StepPlan& p) { p.prefills[1].tokens.resize(60); }},
      {"prefill 1: token is -1, not in [0, 99]",
       [](StepPlan& p) { p.prefills[1].tokens[2] = -1; }},
      {"prefill 1: token is 100, not in [0, 99]",
       [](StepPlan& p) { p.prefills[1].tokens[2] = 100; }},
      {"prefill 0: next_token is -2, not in [0, 99]",
       [](StepPlan& p) { p.prefills[0].next_token = -2; }},
      {"prefill 0: next_token is 100, not in [0, 99]",
       [](StepPlan& p) { p.prefills[0].next_token = 100; }},
      {"prefill 0: prompt_logprobs is 21, not in [0, 20]",
       [](StepPlan& p) { p.prefills[0].prompt_logprobs = 21; }},
      {"prefill 1: prompt_logprobs is -1, not in [0, 20]",
       [](StepPlan& p) { p.prefills[1].prompt_logprobs = -1; }},
      {"prefill 0: end of the last chunk is 5, not prompt_length = 12",
       [](StepPlan& p) { p.prefills[0].next_token.reset(); }},
      {"prefill 1: end of the last chunk is 11, not prompt_length = 10",
       [](StepPlan& p) { p.prefills[1].sequence.prompt_length = 10; }},
  });
}

TEST(StepTest, AChunkKnowsTheTokensOfThePromptThatFollowItsOwn) {
  PrefillPlan chunk{
      .sequence = {.committed = 4}, .tokens = {11, 12, 13}, .next_token = 14};
  const auto followers = [&chunk](int prompt_length) {
    chunk.sequence.prompt_length = prompt_length;
    std::vector<int32_t> tokens;
    tokens.reserve(static_cast<size_t>(chunk.NumPromptFollowers()));
    for (int i = 0; i < chunk.NumPromptFollowers(); ++i) {
      tokens.push_back(chunk.Follower(i));
    }
    return tokens;
  };

  EXPECT_EQ(followers(100), (std::vector<int32_t>{12, 13, 14}));
  EXPECT_EQ(followers(8), (std::vector<int32_t>{12, 13, 14}));
  // The prompt ends with the chunk, within it, with what is committed, before.
  EXPECT_EQ(followers(7), (std::vector<int32_t>{12, 13}));
  EXPECT_EQ(followers(6), (std::vector<int32_t>{12}));
  EXPECT_EQ(followers(5), std::vector<int32_t>());
  EXPECT_EQ(followers(1), std::vector<int32_t>());
}

TEST(StepTest, ASequenceOutOfRangeIsRefusedInAChunkAndInTheForest) {
  ExpectRefusals({
      {"prefill 0: slot is -1, not in [0, 5]",
       [](StepPlan& p) { p.prefills[0].sequence.slot = SlotId(-1); }},
      {"sequence 1: slot is 6, not in [0, 5]",
       [](StepPlan& p) { p.sequences[1].slot = SlotId(6); }},
      {"sequence 0: slot 1 is used twice",
       [](StepPlan& p) { p.sequences[0].slot = SlotId(1); }},
      {"prefill 0: committed is -1, not in [0, 40]",
       [](StepPlan& p) { p.prefills[0].sequence.committed = -1; }},
      {"prefill 0: committed is 2147483647, not in [0, 40]",
       [](StepPlan& p) { p.prefills[0].sequence.committed = kHuge; }},
      {"prefill 0: committed + rows is 41, not in [1, 40]",
       [](StepPlan& p) { p.prefills[0].sequence.committed = 36; }},
      {"sequence 1: committed is 0, not in [1, 40]",
       [](StepPlan& p) { p.sequences[1].committed = 0; }},
      {"sequence 1: committed is 2147483647, not in [1, 40]",
       [](StepPlan& p) { p.sequences[1].committed = kHuge; }},
      {"sequence 1: committed + rows is 41, not in [1, 40]",
       [](StepPlan& p) { p.sequences[1].committed = 40; }},
      {"sequence 0: prompt_length is 0, not in [1, 40]",
       [](StepPlan& p) { p.sequences[0].prompt_length = 0; }},
      {"prefill 0: prompt_length is 41, not in [1, 40]",
       [](StepPlan& p) { p.prefills[0].sequence.prompt_length = 41; }},
      {"sequence 0: max_new_tokens is 0, not in [1, 40]",
       [](StepPlan& p) { p.sequences[0].max_new_tokens = 0; }},
      {"sequence 0: max_new_tokens is 41, not in [1, 40]",
       [](StepPlan& p) { p.sequences[0].max_new_tokens = 41; }},
      {"sequence 0: number of stop tokens is 81, not in [0, 80]",
       [](StepPlan& p) { p.sequences[0].stop_tokens.resize(81); }},
      {"sequence 0: temperature is -1; allowed is [0, 100]",
       [](StepPlan& p) { p.sequences[0].sampling.temperature = -1; }},
      {"prefill 1: logit_bias is 100; allowed is a token in [0, 100)",
       [](StepPlan& p) {
         p.prefills[1].sequence.sampling.logit_bias = {{100, 1.0f}};
       }},
  });
}

TEST(StepTest, PagesThatAreMissingOrOutOfRangeAreRefused) {
  ExpectRefusals({
      {"sequence 0: page is -1, not in [0, 19]",
       [](StepPlan& p) {
         p.sequences[0].pages = Pages({2, -1});
       }},
      {"prefill 0: page is 20, not in [0, 19]",
       [](StepPlan& p) {
         p.prefills[0].sequence.pages = Pages({0, 20});
       }},
      {"sequence 0: 1 pages hold 8 KV rows, 16 are needed",
       [](StepPlan& p) { p.sequences[0].pages = Pages({2}); }},
      {"prefill 0: 0 pages hold 0 KV rows, 10 are needed",
       [](StepPlan& p) { p.prefills[0].sequence.pages.clear(); }},
      // A full context of 40 and the drafter's 5 take 6 pages of 8.
      {"sequence 1: number of pages is 7, not in [0, 6]",
       [](StepPlan& p) {
         p.sequences[1].pages = Pages({5, 6, 7, 8, 9, 10, 11});
       }},
  });
}

TEST(StepTest, AWrittenPageIsNobodyElses) {
  ExpectRefusals({
      // Written by the chunk and by the sequence.
      {"sequence 1: page 3 is written and also used elsewhere",
       [](StepPlan& p) { p.sequences[1].pages = Pages({3}); }},
      // Written by the chunk, then read by the sequence.
      {"sequence 0: page 1 is written and also used elsewhere",
       [](StepPlan& p) {
         p.sequences[0].pages = Pages({1, 4});
       }},
      // Read by two, then written by the third.
      {"sequence 1: page 2 is written and also used elsewhere",
       [](StepPlan& p) { p.sequences[1].pages = Pages({2}); }},
      // Read and written by the same sequence.
      {"sequence 0: page 4 is written and also used elsewhere",
       [](StepPlan& p) {
         p.sequences[0].pages = Pages({4, 4});
       }},
      // Beyond the rows of this step, but the sequence's own to write.
      {"sequence 1: page 4 is written and also used elsewhere",
       [](StepPlan& p) {
         p.sequences[1].pages = Pages({5, 4});
       }},
      // The drafter's rows of a tail go to positions 7 and 8.
      {"sequence 0: page 2 is written and also used elsewhere",
       [](StepPlan& p) {
         p.sequences[0].draft_tail = {1, 10};
       }},
  });
  StepPlan plan = MixedPlan();
  plan.sequences[0].draft_tail = {10};
  EXPECT_TRUE(Validate(plan, Limits()).ok()) << Validate(plan, Limits());
}

TEST(StepTest, WhoSkipsTheDrafterComesLastAndHasNoTail) {
  ExpectRefusals({
      {"sequence 1: skips_drafter is false, and true of the one before",
       [](StepPlan& p) { p.sequences[0].skips_drafter = true; }},
      {"sequence 1: length of the draft tail is 1, not in [0, 0]",
       [](StepPlan& p) {
         p.sequences[1].skips_drafter = true;
         p.sequences[1].draft_tail = {1};
       }},
      {"lease: sequence 1: skips_drafter is true, in a lease that drafts",
       [](StepPlan& p) {
         p.prefills.clear();
         p.draft = {.top_k = 1, .depth = 1};
         p.lease = Lease{.rounds = 1, .budget = 2, .max_nodes_per_tree = 1};
         p.sequences[1].skips_drafter = true;
       }},
  });
  StepPlan plan = MixedPlan();
  plan.sequences[1].skips_drafter = true;
  EXPECT_TRUE(Validate(plan, Limits()).ok()) << Validate(plan, Limits());
}

TEST(StepTest, AForestThatDoesNotFitThePlanIsRefused) {
  const NodeList root = {.token = {1}, .parent = {kNoParent}};
  const NodeList chain = {.token = {1, 2, 3, 4, 5, 6},
                          .parent = {kNoParent, 0, 1, 2, 3, 4}};
  NodeList long_chain = chain;
  long_chain.token.push_back(7);
  long_chain.parent.push_back(5);
  ExpectRefusals({
      {"forest: number of requests is 1, not in [2, 2]",
       [&](StepPlan& p) { p.forest = Forest({root}); }},
      {"forest: number of requests is 3, not in [2, 2]",
       [&](StepPlan& p) {
         p.forest = Forest({root, root, root});
       }},
      {"sequence 1: number of nodes is 0, not in [1, 6]",
       [&](StepPlan& p) {
         p.forest = Forest({root, {}});
       }},
      {"sequence 0: node 2 is a second root",
       [&](StepPlan& p) {
         p.forest = Forest(
             {{.token = {1, 2, 3}, .parent = {kNoParent, 0, kNoParent}}, root});
       }},
      {"forest: request 0 has 7 nodes; the limit is 6",
       [&](StepPlan& p) {
         p.forest = Forest({long_chain, root});
       }},
      {"forest: 12 nodes; the limit is 10",
       [&](StepPlan& p) {
         p.forest = Forest({chain, chain});
       }},
      {"forest: 5 requests; the limit is 4",
       [&](StepPlan& p) {
         p.sequences.resize(5);
         p.forest = Forest({root, root, root, root, root});
       }},
      {"forest: request 1: node 0 has token 100 of a vocabulary of 100",
       [&](StepPlan& p) { p.forest.token[3] = 100; }},
      {"forest: depth does not agree with the parents",
       [&](StepPlan& p) { p.forest.depth[1] = 2; }},
  });
}

TEST(StepTest, TheLastPositionAndTheLastPageMayBeUsed) {
  StepPlan plan = MixedPlan();
  plan.sequences[0].committed = 37;
  plan.sequences[0].pages = Pages({2, 7, 8, 9, 10, 19});
  plan.sequences[0].max_new_tokens = 40;

  EXPECT_TRUE(Validate(plan, Limits()).ok()) << Validate(plan, Limits());
}

TEST(StepTest, WithoutADraftFewerPagesAreNeeded) {
  StepPlan plan = MixedPlan();
  plan.prefills[0].sequence.pages = Pages({0});
  EXPECT_FALSE(Validate(plan, Limits()).ok());

  plan.draft.reset();

  EXPECT_TRUE(Validate(plan, Limits()).ok()) << Validate(plan, Limits());
}

// The drafter's, which sees chunks in any case.
TEST(StepTest, WhereADraftIsPutOffAChunkNeedsTheNextTokensRow) {
  StepPlan plan = MixedPlan();
  plan.draft.reset();
  plan.prefills[0].tokens.resize(8, 1);
  plan.prefills[0].sequence.pages = Pages({0});
  EXPECT_TRUE(Validate(plan, Limits()).ok()) << Validate(plan, Limits());

  plan.defers_draft = true;

  EXPECT_EQ(Validate(plan, Limits()).message(),
            "prefill 0: 1 pages hold 8 KV rows, 9 are needed");
}

}  // namespace
}  // namespace bole
