// Drafting that was put off, on the demo model: once the drafter has seen what
// it missed, it proposes what it would have proposed had it drafted in every
// round, bit for bit.
#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/draft_shape.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/validate_plan.h"

namespace bole::testing_support {
namespace {

using ::bole::testing::UniformInt;
using ::testing::HasSubstr;

constexpr int kMaxContext = 420;
constexpr int kRequests = 3;
constexpr DraftShape kTree{.top_k = 2, .depth = 4};
constexpr int kLongestPath = kTree.depth + 1;

std::unique_ptr<Engine> MakeEngine() {
  DemoModel& demo = DemoModel::Get();
  EngineOptions options = EngineOptionsFor(
      {.draft = kTree, .max_nodes_per_tree = 16, .max_batch = kRequests},
      kMaxContext, demo.model().num_valid_tokens());
  options.max_prefill_tokens = kMaxDraftTail;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
      demo.model().config, *demo.model().weights, demo.backend(), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

// What a plan is to do.
struct Turn {
  std::vector<int> running = {0};
  bool drafts = false;  // Or else defers.
  bool shows_tails = true;
  int nodes_per_tree = 1;
  int rounds = 1;       // Of a lease, if there is more than one.
  size_t skipping = 0;  // Of those that run the last ones, from now on.
};

// Two engines that verify the same forests: a steady one, which drafts after
// each of them, and one that defers. The trees are the steady one's.
class Twins {
 public:
  Twins() : steady_(MakeEngine()), deferring_(MakeEngine()) {
    const auto prompts = DemoModel::Get().Prompts();
    const int pages = steady_->limits().num_pages / kRequests;
    for (int b = 0; b < kRequests; ++b) {
      Sequence& sequence = sequences_[b];
      sequence.tokens = prompts[b];
      sequence.plan.slot = SlotId(b);
      sequence.plan.max_new_tokens = kMaxContext;
      sequence.plan.sampling.temperature = b == 1 ? 0.8f : 0;
      sequence.plan.sampling.seed = 7 + b;
      sequence.plan.prompt_length = length(b);
      for (int i = 0; i < pages; ++i) {
        sequence.plan.pages.emplace_back(b * pages + i);
      }
    }
  }

  // In chunks of so many tokens, of which those at odd places are deferred.
  void Prefill(int b, int chunk_tokens) {
    const std::vector<int32_t> prompt = sequences_[b].tokens;
    for (int i = 0; committed(b) < std::ssize(prompt); ++i) {
      const int end = std::min<int>(committed(b) + chunk_tokens,
                                    static_cast<int>(prompt.size()));
      PrefillPlan chunk{
          .sequence = sequences_[b].plan,
          .tokens = {prompt.begin() + committed(b), prompt.begin() + end}};
      if (end < std::ssize(prompt)) chunk.next_token = prompt[end];
      StepPlan plan{.prefills = {chunk}, .draft = kTree};
      StepResult expected = Step(*steady_, plan);
      if (i % 2 == 1) {
        plan.draft.reset();
        plan.defers_draft = true;
      }
      StepResult actual = Step(*deferring_, plan);
      auto& proposal = actual.prefills[0].proposal;
      EXPECT_TRUE(plan.draft || !proposal);
      if (!plan.draft) proposal = expected.prefills[0].proposal;
      EXPECT_EQ(actual, expected);
      Advance(b, expected.prefills[0]);
      sequences_[b].seen = committed(b);
    }
  }
  void PrefillAll() {
    for (int b = 0; b < kRequests; ++b) Prefill(b, /*chunk_tokens=*/64);
  }

  // Compares the rounds of both, and what they propose in the end.
  void Run(const Turn& turn) {
    StepPlan plan = Plan(turn.running, turn.nodes_per_tree);
    StepPlan own = plan;
    if (turn.drafts) {
      own.draft = kTree;
    } else {
      own.defers_draft = true;
    }
    for (size_t i = 0; i < turn.running.size(); ++i) {
      Sequence& sequence = sequences_[turn.running[i]];
      sequence.plan.skips_drafter = i + turn.skipping >= turn.running.size();
      own.sequences[i].skips_drafter = sequence.plan.skips_drafter;
      if (turn.shows_tails && !sequence.plan.skips_drafter) {
        own.sequences[i].draft_tail = Tail(turn.running[i]);
        sequence.seen = committed(turn.running[i]);
      }
    }
    if (turn.rounds > 1) {
      own.lease = {.rounds = turn.rounds,
                   .budget = 16 * static_cast<int>(turn.running.size()),
                   .max_nodes_per_tree = 16};
    }
    const absl::Status status =
        deferring_->Step(own, [&](const StepResult& result) {
          plan.forest = result.forest.value_or(own.forest);
          RunSteady(turn, plan, result);
        });
    ASSERT_TRUE(status.ok()) << status;
  }
  std::vector<int32_t> Tail(int b) const {
    const Sequence& sequence = sequences_[b];
    return {sequence.tokens.begin() + sequence.seen + 1,
            sequence.tokens.begin() + committed(b) + 1};
  }
  int tail_length(int b) const { return committed(b) - sequences_[b].seen; }
  int committed(int b) const { return sequences_[b].plan.committed; }
  int num_proposals() const { return num_proposals_; }
  // From now on proposals are only counted, and those that are others.
  void ExpectOthers() { expects_others_ = true; }
  int num_others() const { return num_others_; }

 private:
  struct Sequence {
    SequencePlan plan;
    std::vector<int32_t> tokens;  // Those committed and the pending one.
    ProposalTree tree;            // The steady engine's.
    int seen = 0;                 // Of the committed, by the other's drafter.
  };

  static StepResult Step(Engine& engine, const StepPlan& plan) {
    absl::StatusOr<StepResult> result = engine.Step(plan);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : StepResult{};
  }
  int length(int b) const {
    return static_cast<int>(sequences_[b].tokens.size());
  }

  StepPlan Plan(const std::vector<int>& running, int nodes_per_tree) const {
    StepPlan plan;
    std::vector<ProposalTree> trees;
    for (const int b : running) {
      plan.sequences.push_back(sequences_[b].plan);
      plan.sequences.back().skips_drafter = false;
      trees.push_back(sequences_[b].tree);
    }
    const int budget = nodes_per_tree * static_cast<int>(running.size());
    plan.forest =
        PackForest(trees, SelectNodes(trees, budget, nodes_per_tree)).forest;
    return plan;
  }

  // The same forest, and a draft. `plan` has the sequences before the round.
  void RunSteady(const Turn& turn, StepPlan& plan, const StepResult& other) {
    plan.draft = kTree;
    const StepResult result = Step(*steady_, plan);
    for (size_t i = 0; i < turn.running.size(); ++i) {
      const SequenceResult& own = result.sequences[i];
      const SequenceResult& theirs = other.sequences[i];
      const int b = turn.running[i];
      EXPECT_EQ(theirs.emitted, own.emitted) << "sequence " << b;
      EXPECT_EQ(theirs.committed, own.committed);
      EXPECT_EQ(theirs.proposal.has_value(),
                turn.drafts && other.is_last &&
                    i < std::ssize(turn.running) - turn.skipping);
      if (theirs.proposal) Compare(b, *theirs.proposal, *own.proposal);
      Advance(b, own);
      if (turn.drafts) sequences_[b].seen = committed(b);
      plan.sequences[i] = sequences_[b].plan;
      plan.sequences[i].skips_drafter = false;
    }
  }
  void Compare(int b, const ProposalTree& theirs, const ProposalTree& own) {
    ++num_proposals_;
    num_others_ += theirs == own ? 0 : 1;
    if (!expects_others_) {
      EXPECT_EQ(theirs, own) << "sequence " << b << " at " << committed(b);
    }
  }
  void Advance(int b, const SequenceResult& result) {
    Sequence& sequence = sequences_[b];
    sequence.plan.committed = result.committed;
    for (const EmittedToken& token : result.emitted) {
      sequence.tokens.push_back(token.token);
    }
    if (result.proposal) sequence.tree = *result.proposal;
  }

  std::unique_ptr<Engine> steady_, deferring_;
  Sequence sequences_[kRequests];
  int num_proposals_ = 0;
  int num_others_ = 0;
  bool expects_others_ = false;
};

// 165 positions, so that the ring of hidden vectors goes round twice.
TEST(EngineDraftTailTest, ATailMayBeAsLongAsTheRing) {
  Twins twins;
  twins.Prefill(0, /*chunk_tokens=*/64);
  for (const int rounds : {1, 2, 7, 26, 63, kMaxDraftTail}) {
    SCOPED_TRACE(rounds);
    for (int i = 0; i < rounds; ++i) {
      twins.Run({.shows_tails = false});
    }
    ASSERT_EQ(twins.tail_length(0), rounds);
    twins.Run({.drafts = true});
  }
  EXPECT_EQ(twins.num_proposals(), 6);
}

// The rounds that defer verify trees, so that paths have gaps between rows.
TEST(EngineDraftTailTest, PathsOfTreesAreKept) {
  Twins twins;
  twins.PrefillAll();
  const std::vector<int> all = {0, 1, 2};
  int longest = 0;
  for (int i = 0; i < 12; ++i) {
    for (int round = 0; round < 4; ++round) {
      const int before = twins.committed(0);
      twins.Run({.running = all, .shows_tails = false, .nodes_per_tree = 9});
      longest = std::max(longest, twins.committed(0) - before);
    }
    twins.Run({.running = all, .drafts = true, .nodes_per_tree = 9});
  }
  EXPECT_GT(longest, 2);
  EXPECT_EQ(twins.num_proposals(), 12 * kRequests);
}

TEST(EngineDraftTailTest, LeasesDeferAndCatchUp) {
  Twins twins;
  twins.PrefillAll();
  const std::vector<int> all = {0, 1, 2};
  for (int i = 0; i < 4; ++i) {
    // Rounds of lone roots, and rounds of trees: a lease runs both alike if it
    // has both, which costs the last bits of what single plans compute.
    twins.Run(
        {.running = all, .shows_tails = false, .rounds = kMaxLeaseRounds});
    twins.Run(
        {.running = all, .drafts = true, .nodes_per_tree = 9, .rounds = 4});
  }
  EXPECT_EQ(twins.num_proposals(), 4 * kRequests);
}

// Which sequences run, and what for, is drawn: their tails differ, and some are
// shown in rounds that defer again.
TEST(EngineDraftTailTest, SequencesOfABatchHaveTailsOfTheirOwn) {
  std::mt19937 rng(1);
  Twins twins;
  for (int b = 0; b < kRequests; ++b) twins.Prefill(b, /*chunk_tokens=*/64);
  int longest_together = 0;
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    Turn turn{.running = {}, .drafts = UniformInt(rng, 0, 24) == 0};
    int longest = 0;
    int together = 0;
    for (int b = 0; b < kRequests; ++b) {
      if (UniformInt(rng, 0, 3) == 0) continue;
      turn.running.push_back(b);
      longest = std::max(longest, twins.tail_length(b));
      together += twins.tail_length(b);
    }
    if (turn.running.empty()) continue;
    turn.nodes_per_tree = UniformInt(rng, 0, 4) == 0 ? 6 : 1;
    const bool is_full = longest + kLongestPath > kMaxDraftTail;
    turn.drafts = turn.drafts || (is_full && UniformInt(rng, 0, 2) > 0);
    turn.shows_tails = turn.drafts || is_full || UniformInt(rng, 0, 60) == 0;
    if (turn.shows_tails) {
      longest_together = std::max(longest_together, together);
    }
    twins.Run(turn);
    if (HasFatalFailure()) return;
  }
  // More than fit into one pass.
  EXPECT_GT(longest_together, kMaxDraftTail);
  EXPECT_GT(twins.num_proposals(), 10);
}

TEST(EngineDraftTailTest, ChunksThatDeferFillTheDraftersMemory) {
  for (const int chunk_tokens : {64, 30, 7}) {
    SCOPED_TRACE(chunk_tokens);
    Twins twins;
    twins.Prefill(2, chunk_tokens);
    EXPECT_EQ(twins.tail_length(2), 0);
    twins.Run({.running = {2}, .drafts = true});
    EXPECT_EQ(twins.num_proposals(), 1);
  }
}

TEST(EngineDraftTailTest, SomeSequencesSkipTheDrafter) {
  Twins twins;
  twins.PrefillAll();
  twins.Run({.running = {0, 1, 2}, .drafts = true, .nodes_per_tree = 6});
  for (int i = 0; i < 12; ++i) {
    Turn turn{.running = {2, 0, 1}, .drafts = i % 4 != 1};
    turn.shows_tails = i % 4 == 2;
    turn.nodes_per_tree = 6, turn.skipping = i < 6 ? 1 : 2;
    twins.Run(turn);
  }
  EXPECT_EQ(twins.num_proposals(), kRequests + 4 * 2 + 5 * 1);
}

TEST(EngineDraftTailTest, AChunkThatSkipsTheDrafterGetsNoTree) {
  const auto prompts = DemoModel::Get().Prompts();
  const std::unique_ptr<Engine> engine = MakeEngine();
  StepPlan plan{.draft = kTree};
  for (int b = 0; b < 2; ++b) {
    PrefillPlan chunk{.tokens = prompts[b]};
    chunk.tokens.resize(std::min<size_t>(chunk.tokens.size(), 30));
    chunk.sequence.slot = SlotId(b);
    chunk.sequence.prompt_length = static_cast<int>(chunk.tokens.size());
    for (int i = 0; i < 5; ++i) chunk.sequence.pages.emplace_back(5 * b + i);
    plan.prefills.push_back(chunk);
  }
  const absl::StatusOr<StepResult> both = engine->Step(plan);
  ASSERT_TRUE(both.ok()) << both.status();
  plan.prefills[1].sequence.skips_drafter = true;
  const absl::StatusOr<StepResult> one = engine->Step(plan);
  ASSERT_TRUE(one.ok()) << one.status();

  EXPECT_EQ(one->prefills[0], both->prefills[0]);
  EXPECT_TRUE(one->prefills[0].proposal);
  EXPECT_EQ(one->prefills[1].emitted, both->prefills[1].emitted);
  EXPECT_FALSE(one->prefills[1].proposal);
}

// What the tests above would see if nothing were shown.
TEST(EngineDraftTailTest, WithoutItsTailADrafterProposesSomethingElse) {
  Twins twins;
  twins.Prefill(0, /*chunk_tokens=*/64);
  twins.ExpectOthers();
  for (int i = 0; i < 20; ++i) twins.Run({.shows_tails = false});

  twins.Run({.drafts = true, .shows_tails = false});

  EXPECT_EQ(twins.num_proposals(), 1);
  EXPECT_EQ(twins.num_others(), 1);
}

TEST(EngineDraftTailTest, ACheckpointWithoutADrafterRefusesThem) {
  StepPlan plan;
  plan.sequences.push_back({.slot = SlotId(0),
                            .committed = 5,
                            .pages = {PageId(0)},
                            .prompt_length = 5,
                            .draft_tail = {1, 2}});
  plan.forest = *BuildForest(
      std::vector<NodeList>{{.token = {2}, .parent = {kNoParent}}});
  const StepLimits limits = MakeEngine()->limits();
  EXPECT_TRUE(ValidatePlan(plan, limits, /*has_drafter=*/true).ok());

  const absl::Status tail = ValidatePlan(plan, limits, /*has_drafter=*/false);
  StepPlan chunk;
  chunk.prefills = {{.sequence = plan.sequences[0], .tokens = {2}}};
  chunk.prefills[0].sequence.prompt_length = 6;
  EXPECT_TRUE(ValidatePlan(chunk, limits, /*has_drafter=*/true).ok());
  const absl::Status of_chunk =
      ValidatePlan(chunk, limits, /*has_drafter=*/false);
  plan.sequences[0].draft_tail.clear();
  plan.defers_draft = true;
  const absl::Status defers = ValidatePlan(plan, limits, /*has_drafter=*/false);

  const auto expect = [](const absl::Status& status, const char* message) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  expect(tail, "sequence 0: the draft tail has 2 tokens");
  expect(of_chunk, "prefill 0: the draft tail has 2 tokens");
  expect(defers, "defers a draft");
}

}  // namespace
}  // namespace bole::testing_support
