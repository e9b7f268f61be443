#include "scheduler_service/replicas/planner.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "common/packed_forest.h"
#include "common/select_nodes.h"
#include "gtest/gtest.h"
#include "scheduler_service/policy/fixed_policy.h"
#include "scheduler_service/policy/speculation.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/requests.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::MakeTinyTokenizer;
using ::bole::testing::RandomPrompt;
using ::bole::testing::RandomTree;

constexpr StepLimits kLimits = {.max_requests = 8,
                                .max_nodes = 100,
                                .max_nodes_per_tree = 32,
                                .max_prefill_tokens = 256,
                                .max_draft = {.top_k = 4, .depth = 8},
                                .num_slots = 8,
                                .num_pages = 100,
                                .page_size = 16,
                                .max_context = 300,
                                .vocabulary = 256};

// Chooses a fixed number of nodes for each sequence as the round's budget.
class BudgetPolicy : public RoundPolicy {
 public:
  explicit BudgetPolicy(int nodes_per_sequence)
      : nodes_per_sequence_(nodes_per_sequence) {}

  const RoundBounds& bounds() const override { return bounds_; }
  RoundChoice Choose(const RoundView& view) override {
    joining = view.joining;
    followed.clear();
    for (const SequenceView& of : view.sequences) {
      followed.push_back(of.is_followed);
    }
    RoundChoice choice = next;
    choice.budget = nodes_per_sequence_ * static_cast<int>(view.trees.size());
    if (!choice.defers_draft && drafts) choice.draft = bounds_.draft;
    return choice;
  }

  bool urgent_first() const override { return is_urgent; }

  bool is_urgent = false;
  bool drafts = true;  // Unless `next` defers the draft.
  int joining = 0;     // As in the last view.
  std::vector<bool> followed;
  RoundChoice next;  // Except for its budget and its draft.

 private:
  const int nodes_per_sequence_;
  const RoundBounds bounds_ = {.draft = DraftShape{.top_k = 4, .depth = 8},
                               .max_nodes_per_tree = 32};
};

// Has placements in chosen states, with the slots and pages that they need.
class PlanRoundTest : public ::testing::Test {
 protected:
  Placement& Add(int prompt_length, int max_tokens, int num_pages = 12) {
    auto request = MakeRequest(RandomPrompt(rng_, prompt_length), max_tokens);
    request->speculation = speculation_;
    request->targets.time_to_first_token = target_;
    jobs_.push_back(std::make_unique<Job>(std::move(request), *tokenizer_));
    PageLease pages(memory_);
    EXPECT_TRUE(pages.GrowTo(num_pages));
    running_.push_back(std::make_unique<Placement>(
        *jobs_.back(), *memory_.TakeSlot(), std::move(pages)));
    return *running_.back();
  }
  // Adds a placement whose prefill is done, with `tree` as its candidates.
  void AddDecoding(int prompt_length, int max_tokens, ProposalTree tree,
                   int num_pages = 12) {
    SequenceResult result;
    result.committed = prompt_length;
    result.emitted.push_back({.token = tree.token[0], .logprob = 0, .top = {}});
    result.proposal = std::move(tree);
    Add(prompt_length, max_tokens, num_pages).Advance(std::move(result));
  }
  PlannedRound Plan(int nodes_per_sequence = 16, const RoundChoice& next = {}) {
    BudgetPolicy policy(nodes_per_sequence);
    policy.next = next;
    PlannedRound round =
        PlanRound(running_, policy,
                  {.limits = kLimits, .bounds = policy.bounds()}, PlanTime());
    EXPECT_TRUE(Validate(round.plan, kLimits).ok())
        << Validate(round.plan, kLimits);
    return round;
  }

  // The overrides and targets of requests that are added from now on.
  std::optional<SpeculationOverride> speculation_;
  std::optional<std::chrono::milliseconds> target_;
  std::mt19937 rng_{1};
  std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  WorkerMemory memory_{kLimits.num_slots, kLimits.num_pages};
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<Placement>> running_;
};

TEST_F(PlanRoundTest, NothingRunsNothingIsPlanned) {
  EXPECT_TRUE(Plan().empty());
}

TEST_F(PlanRoundTest, NodesAreTheLikeliestOfTheWholeBatch) {
  std::vector<ProposalTree> trees;
  for (int i = 0; i < 4; ++i) {
    trees.push_back(RandomTree(rng_, 40));
    AddDecoding(10 + i, 100, trees.back());
  }

  const PlannedRound round = Plan(/*nodes_per_sequence=*/16);

  ASSERT_EQ(round.sequences.size(), 4u);
  EXPECT_EQ(round.plan.forest,
            PackForest(trees, SelectNodes(trees, 4 * 16, 32)).forest);
  EXPECT_EQ(round.plan.forest.num_nodes(), 64);
}

TEST_F(PlanRoundTest, TheWorkersNodesBoundTheBudget) {
  for (int i = 0; i < 8; ++i) AddDecoding(10, 100, RandomTree(rng_, 40));

  EXPECT_EQ(Plan(/*nodes_per_sequence=*/32).plan.forest.num_nodes(),
            kLimits.max_nodes);
}

TEST_F(PlanRoundTest, AlmostDoneMeansAShallowTree) {
  AddDecoding(10, /*max_tokens=*/3, RandomTree(rng_, 40));

  const PackedForest forest = Plan(/*nodes_per_sequence=*/32).plan.forest;

  EXPECT_EQ(*std::max_element(forest.depth.begin(), forest.depth.end()), 2);
}

TEST_F(PlanRoundTest, ATreeDoesNotReachBeyondTheContext) {
  const int prompt = kLimits.max_context - 5;
  AddDecoding(prompt, 5, RandomTree(rng_, 40), /*num_pages=*/21);

  EXPECT_LE(Plan(/*nodes_per_sequence=*/32).plan.forest.num_nodes(), 5);
}

TEST_F(PlanRoundTest, PrefillAndDecodingShareARound) {
  AddDecoding(10, 100, RandomTree(rng_, 40));
  const Placement& prefill = Add(100, 10);

  const PlannedRound round = Plan();

  ASSERT_EQ(round.prefills.size(), 1u);
  EXPECT_EQ(round.prefills[0], &prefill);
  EXPECT_EQ(round.plan.prefills[0].tokens, prefill.job().request().prompt);
  EXPECT_FALSE(round.plan.prefills[0].next_token.has_value());
  EXPECT_EQ(round.sequences.size(), 1u);
}

TEST_F(PlanRoundTest, ALongPrefillIsCutOnTheGridWithItsNextToken) {
  const Placement& placement = Add(290, 10, /*num_pages=*/21);

  const PlannedRound round = Plan();

  const PrefillPlan& chunk = round.plan.prefills[0];
  EXPECT_EQ(chunk.tokens.size(), 256u);
  EXPECT_EQ(chunk.next_token, placement.job().request().prompt[256]);
}

TEST_F(PlanRoundTest, WhatHasNoRoomWaitsForTheNextRound) {
  Add(100, 10);
  Add(100, 10);
  Add(100, 10);

  const PlannedRound round = Plan();

  // The first two take 200 of 256 tokens. The remaining 56 do not reach a grid
  // position of the third.
  EXPECT_EQ(round.prefills.size(), 2u);
}

TEST_F(PlanRoundTest, WithoutSpeculationEveryTreeIsItsRoot) {
  AddDecoding(10, 100, RandomTree(rng_, 40));
  AddDecoding(10, 100, RandomTree(rng_, 40));

  FixedPolicy off(RoundBounds(), /*lease_rounds=*/1, OffReason::kAsked);
  const PlannedRound round = PlanRound(
      running_, off, {.limits = kLimits, .bounds = off.bounds()}, PlanTime());

  EXPECT_EQ(round.plan.forest.num_nodes(), 2);
  EXPECT_FALSE(round.plan.draft.has_value());
}

TEST_F(PlanRoundTest, ARequestBoundsItsOwnTreeAndNoOther) {
  const ProposalTree tree = RandomTree(rng_, 40);
  const auto bounded = [&](const SpeculationOverride& bounds) {
    running_.clear();
    speculation_ = bounds;
    AddDecoding(10, 100, tree);
    speculation_.reset();
    AddDecoding(10, 100, tree);
    const PackedForest forest = Plan(/*nodes_per_sequence=*/32).plan.forest;
    EXPECT_EQ(forest.first_node[2] - forest.first_node[1], 32);
    return std::vector<int32_t>(forest.depth.begin(),
                                forest.depth.begin() + forest.first_node[1]);
  };

  const auto off = bounded({.mode = SpeculationMode::kOff});
  const auto chain = bounded({.mode = SpeculationMode::kChain});
  const auto short_chain =
      bounded({.mode = SpeculationMode::kChain, .max_nodes = 2});
  const auto few = bounded({.max_nodes = 5});
  const auto shallow = bounded({.max_depth = 1});
  const auto more = bounded({.max_nodes = 128, .max_depth = 16});

  EXPECT_EQ(off, (std::vector<int32_t>{0}));
  ASSERT_GE(chain.size(), 2u);
  for (size_t level = 0; level < chain.size(); ++level) {
    EXPECT_EQ(chain[level], static_cast<int32_t>(level));
  }
  EXPECT_EQ(short_chain, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(few.size(), 5u);
  EXPECT_GE(shallow.size(), 2u);
  EXPECT_EQ(*std::max_element(shallow.begin(), shallow.end()), 1);
  EXPECT_EQ(more.size(), 32u);  // The policy's own bound.
}

TEST_F(PlanRoundTest, ALeaseKeepsToWhatRequestsAllowOrThereIsNone) {
  RoundChoice lends{.lease_rounds = 4, .lease_budget = 40};
  StepLimits limits = kLimits;
  limits.max_lease_rounds = 4;
  bool is_left_behind = false;
  const auto lease_with = [&](const SpeculationOverride& own, bool knows_bounds,
                              const DraftShape& draft) {
    running_.clear();
    speculation_.reset();
    AddDecoding(10, 100, RandomTree(rng_, 40));
    speculation_ = own;
    AddDecoding(10, 100, RandomTree(rng_, 40));
    if (is_left_behind) running_[0]->Unfollow();
    FixedPolicy policy({.draft = draft, .max_nodes_per_tree = 16},
                       /*lease_rounds=*/4, OffReason::kAsked);
    return PlanRound(running_, policy,
                     {.limits = limits,
                      .bounds = policy.bounds(),
                      .knows_bounds = knows_bounds},
                     PlanTime())
        .plan.lease;
  };
  const DraftShape tree{.top_k = 4, .depth = 8};
  const DraftShape chain{.top_k = 1, .depth = 8};
  using Mode = SpeculationMode;

  EXPECT_FALSE(lease_with({.mode = Mode::kOff}, false, tree).has_value());
  EXPECT_FALSE(lease_with({.mode = Mode::kChain}, true, tree).has_value());
  EXPECT_FALSE(lease_with({.max_depth = 7}, true, tree).has_value());
  const auto off = lease_with({.mode = Mode::kOff}, true, tree);
  const auto few = lease_with({.max_nodes = 5}, true, tree);
  const auto chains = lease_with({.mode = Mode::kChain}, true, chain);
  ASSERT_TRUE(off && few && chains);
  EXPECT_EQ(off->bounds, (std::vector<TreeBounds>{{.cap = 16}, {.cap = 1}}));
  EXPECT_EQ(few->bounds, (std::vector<TreeBounds>{{.cap = 16}, {.cap = 5}}));
  EXPECT_EQ(chains->bounds,
            (std::vector<TreeBounds>{{.cap = 16}, {.cap = 16}}));
  is_left_behind = true;
  EXPECT_FALSE(lease_with({.mode = Mode::kChain}, true, chain).has_value());
}

TEST_F(PlanRoundTest, WhatTheDrafterHasNotSeenGoesWithTheNextDraft) {
  AddDecoding(10, 200, RandomTree(rng_, 40));
  Placement& placement = *running_.back();
  const auto advance = [&](int tokens) {
    SequenceResult result;
    result.committed = placement.committed() + tokens;
    for (int i = 0; i < tokens; ++i) {
      result.emitted.push_back({.token = 'a' + i, .logprob = 0, .top = {}});
    }
    placement.Advance(std::move(result), /*deferred=*/true);
  };
  const RoundChoice defers{.defers_draft = true};

  EXPECT_TRUE(Plan().plan.sequences[0].draft_tail.empty());
  advance(3);
  EXPECT_TRUE(Plan(16, defers).plan.sequences[0].draft_tail.empty());
  EXPECT_EQ(Plan().plan.sequences[0].draft_tail,
            (std::vector<int32_t>{'a', 'b', 'c'}));
  while (placement.num_undrafted() < kMaxDraftTail) {
    EXPECT_TRUE(Plan(16, defers).plan.sequences[0].draft_tail.empty());
    advance(1);
  }
  // A slot cannot keep one more token for its drafter.
  EXPECT_EQ(std::ssize(Plan(16, defers).plan.sequences[0].draft_tail),
            kMaxDraftTail);
  SequenceResult seen;
  seen.committed = placement.committed() + 1;
  seen.emitted.push_back({.token = 'z', .logprob = 0, .top = {}});
  placement.SawTail();
  placement.Advance(std::move(seen), /*deferred=*/true);
  EXPECT_EQ(Plan().plan.sequences[0].draft_tail, (std::vector<int32_t>{'z'}));
}

// Four sequences decode and three arrive.
TEST_F(PlanRoundTest, WhoIsNotFollowedComesLastAndSkipsTheDrafter) {
  for (int i = 0; i < 4; ++i) AddDecoding(10 + i, 100, RandomTree(rng_, 40));
  for (int i = 0; i < 3; ++i) Add(20 + i, 10);
  running_[0]->Unfollow();
  running_[2]->Unfollow();
  BudgetPolicy policy(16);
  policy.next.followed_arrivals = 1;
  const auto plan = [&] {
    return PlanRound(running_, policy,
                     {.limits = kLimits, .bounds = policy.bounds()},
                     PlanTime());
  };
  PlannedRound round = plan();

  EXPECT_TRUE(Validate(round.plan, kLimits).ok())
      << Validate(round.plan, kLimits);
  EXPECT_EQ(policy.followed, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(round.sequences,
            (std::vector<Placement*>{running_[1].get(), running_[3].get(),
                                     running_[0].get(), running_[2].get()}));
  for (int b = 0; b < 4; ++b) {
    EXPECT_EQ(round.plan.sequences[b].skips_drafter, b >= 2);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(round.plan.prefills[i].sequence.skips_drafter, i >= 1);
    EXPECT_EQ(round.prefills[i]->is_followed(), i < 1);
  }

  policy.drafts = false;  // The drafter follows none from now on.
  round = plan();
  EXPECT_FALSE(round.plan.sequences[0].skips_drafter);
  for (const auto& of : running_) EXPECT_FALSE(of->is_followed());
}

// There is room for 256 tokens. The oldest request gets its smallest chunk; the
// others, which came in the order of their indices, get the rest by deadline.
TEST_F(PlanRoundTest, PrefillGoesFirstToWhoIsDueSoonest) {
  using std::chrono::milliseconds;
  std::vector<std::optional<milliseconds>> targets = {
      std::nullopt, milliseconds(500), milliseconds(200), milliseconds(10)};
  for (size_t i = 0; i < targets.size(); ++i) {
    target_ = targets[i];
    Add(128, 10, /*num_pages=*/12);
  }
  BudgetPolicy policy(16);
  policy.is_urgent = true;
  // The last one is already late.
  const TimePoint now = jobs_[3]->request().arrival + milliseconds(20);

  const PlannedRound round =
      PlanRound(running_, policy,
                {.limits = kLimits, .bounds = policy.bounds()}, {.now = now});

  EXPECT_EQ(round.prefills,
            (std::vector<Placement*>{running_[2].get(), running_[1].get(),
                                     running_[0].get()}));
  EXPECT_EQ(round.plan.prefills[0].tokens.size(), 128u);
  EXPECT_EQ(round.plan.prefills[1].tokens.size(), 64u);
  EXPECT_EQ(round.plan.prefills[2].tokens.size(), 64u);
}

TEST_F(PlanRoundTest, ThePolicyKnowsWhoseChunkEndsItsPrefill) {
  AddDecoding(10, 100, RandomTree(rng_, 40));
  for (const int length : {10, 20, 290}) Add(length, 10, /*num_pages=*/21);
  BudgetPolicy policy(16);
  // The last one cannot finish its prompt in this round.
  const int room = kLimits.max_prefill_tokens;
  ASSERT_LT(room, 10 + 20 + 290);
  PlanRound(running_, policy, {.limits = kLimits, .bounds = policy.bounds()},
            PlanTime());

  EXPECT_EQ(policy.joining, 2);
}

TEST_F(PlanRoundTest, ThePolicySaysHowMuchPrefillSharesTheRound) {
  Add(290, 10, /*num_pages=*/21);

  EXPECT_EQ(Plan(16, {.prefill_tokens = 130}).plan.prefills[0].tokens.size(),
            128u);
  // The smallest chunk that does not change the result's bits is always run.
  EXPECT_EQ(Plan(16, {.prefill_tokens = 0}).plan.prefills[0].tokens.size(),
            64u);
}

}  // namespace
}  // namespace bole
