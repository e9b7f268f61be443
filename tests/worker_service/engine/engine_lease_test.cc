// Leases on the demo model: what the device chooses by itself is what the host
// would have chosen, node for node.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/packed_forest.h"
#include "common/select_nodes.h"
#include "common/trim_tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"

namespace bole::testing_support {
namespace {

constexpr int kMaxContext = 320;
constexpr int kNodesPerTree = 24;
constexpr int kRequests = 3;

// What one round did.
struct Round {
  PackedForest forest;
  std::array<std::vector<int32_t>, kRequests> emitted;
  std::vector<int32_t> committed;
  std::array<float, kRequests> promised = {};  // As PromisedDrafts().
};

// Sequences on an engine of their own. A sequence's number determines its slot
// and pages.
class Batch {
 public:
  explicit Batch(const std::optional<DraftShape>& draft)
      : draft_(draft), demo_(DemoModel::Get()) {
    const GenerateOptions sizes{.draft = draft,
                                .max_nodes_per_tree = kNodesPerTree,
                                .max_batch = kRequests};
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
        demo_.model().config, *demo_.model().weights, demo_.backend(),
        EngineOptionsFor(sizes, kMaxContext, demo_.model().num_valid_tokens()));
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    const int pages = engine_->limits().num_pages / kRequests;
    for (int b = 0; b < kRequests; ++b) {
      SequencePlan& sequence = sequences_.emplace_back();
      sequence.slot = SlotId(b);
      sequence.max_new_tokens = 200;
      sequence.sampling.temperature = b == 1 ? 0.8f : 0;
      sequence.sampling.frequency_penalty = b == 2 ? 0.3f : 0;
      sequence.sampling.seed = 11 + b;
      for (int i = 0; i < pages; ++i) {
        sequence.pages.emplace_back(b * pages + i);
      }
    }
    Prefill();
  }

  SequencePlan& sequence(int b) { return sequences_[b]; }
  // Sets the bounds of every sequence's tree, from now on.
  void SetBounds(std::vector<TreeBounds> bounds) {
    bounds_ = std::move(bounds);
  }
  const StepLimits& limits() const { return engine_->limits(); }

  // The plan of the next round, as a host chooses it.
  StepPlan Plan(int budget, int nodes_per_tree) {
    StepPlan plan{.draft = draft_};
    std::vector<ProposalTree> trees;
    const std::vector<TreeBounds> bounds = RunningBounds(nodes_per_tree);
    for (int b = 0; b < kRequests; ++b) {
      if (ended_[b]) continue;
      plan.sequences.push_back(sequences_[b]);
      trees.push_back(TrimTree(trees_[b], kMaxContext - sequences_[b].committed,
                               sequences_[b].max_new_tokens));
    }
    const std::vector<NodeRef> selected = SelectNodes(trees, budget, bounds);
    plan.forest = PackForest(trees, selected).forest;
    promised_ = PromisedDrafts(trees, selected);
    return plan;
  }

  // Runs each round as a plan of its own. Stops when all sequences have ended.
  std::vector<Round> HostRounds(int count, int budget, int nodes_per_tree) {
    std::vector<Round> rounds;
    while (count-- > 0 && !AllEnded()) {
      const StepPlan plan = Plan(budget, nodes_per_tree);
      absl::StatusOr<StepResult> result = engine_->Step(plan);
      EXPECT_TRUE(result.ok()) << result.status();
      rounds.push_back(Keep(plan.forest, NumRunning(), *result));
    }
    return rounds;
  }

  std::vector<Round> LeasedRounds(int count, int budget, int nodes_per_tree) {
    StepPlan plan = Plan(budget, nodes_per_tree);
    plan.lease = {.rounds = count,
                  .budget = budget,
                  .max_nodes_per_tree = nodes_per_tree};
    if (!bounds_.empty()) plan.lease->bounds = RunningBounds(nodes_per_tree);
    std::vector<Round> rounds;
    const std::vector<int> requests = NumRunning();
    const absl::Status status =
        engine_->Step(plan, [&](const StepResult& result) {
          EXPECT_EQ(result.round, std::ssize(rounds));
          EXPECT_EQ(result.forest.has_value(), result.round > 0);
          rounds.push_back(
              Keep(result.forest.value_or(plan.forest), requests, result));
        });
    EXPECT_TRUE(status.ok()) << status;
    return rounds;
  }

  absl::Status TryLease(const Lease& lease) {
    StepPlan plan = Plan(kRequests * 8, 8);
    plan.lease = lease;
    return engine_->Step(plan, [](const StepResult&) {});
  }

  bool AllEnded() const {
    return std::find(ended_.begin(), ended_.end(), false) == ended_.end();
  }

 private:
  std::vector<int> NumRunning() const {
    std::vector<int> running;
    for (int b = 0; b < kRequests; ++b) {
      if (!ended_[b]) running.push_back(b);
    }
    return running;
  }

  std::vector<TreeBounds> RunningBounds(int nodes_per_tree) const {
    std::vector<TreeBounds> bounds;
    for (const int b : NumRunning()) {
      bounds.push_back(bounds_.empty() ? TreeBounds{.cap = nodes_per_tree}
                                       : bounds_[b]);
    }
    return bounds;
  }

  void Prefill() {
    const auto prompts = demo_.Prompts();
    StepPlan plan{.draft = draft_};
    for (int b = 0; b < kRequests; ++b) {
      sequences_[b].prompt_length = static_cast<int32_t>(prompts[b].size());
      plan.prefills.push_back(
          {.sequence = sequences_[b], .tokens = prompts[b]});
    }
    absl::StatusOr<StepResult> result = engine_->Step(plan);
    ASSERT_TRUE(result.ok()) << result.status();
    for (int b = 0; b < kRequests; ++b) Take(b, result->prefills[b]);
  }

  void Take(int b, const SequenceResult& result) {
    SequencePlan& sequence = sequences_[b];
    sequence.committed = result.committed;
    sequence.max_new_tokens -= static_cast<int>(result.emitted.size());
    if (result.emitted.empty()) return;
    const int32_t last = result.emitted.back().token;
    trees_[b] = result.proposal.value_or(
        ProposalTree{.parent = {kNoParent}, .token = {last}, .log_rho = {0}});
    ended_[b] = sequence.max_new_tokens <= 0 ||
                sequence.committed >= kMaxContext ||
                std::ranges::count(sequence.stop_tokens, last) > 0;
  }

  // Sequence i of the result is sequence running[i]; rounds list all of them.
  Round Keep(const PackedForest& forest, const std::vector<int>& running,
             const StepResult& result) {
    std::vector<NodeList> lists(kRequests);
    Round round;
    for (size_t i = 0; i < running.size(); ++i) {
      const int b = running[i];
      round.promised[b] =
          result.sequences[i].promised_drafts.value_or(promised_[i]);
      for (int row = forest.first_node[i]; row < forest.first_node[i + 1];
           ++row) {
        lists[b].token.push_back(forest.token[row]);
        lists[b].parent.push_back(forest.parent[row]);
      }
      for (const EmittedToken& token : result.sequences[i].emitted) {
        round.emitted[b].push_back(token.token);
      }
      if (!ended_[b]) Take(b, result.sequences[i]);
    }
    round.forest = *BuildForest(lists);
    for (const SequencePlan& sequence : sequences_) {
      round.committed.push_back(sequence.committed);
    }
    return round;
  }

  const std::optional<DraftShape> draft_;
  DemoModel& demo_;
  std::unique_ptr<Engine> engine_;
  std::vector<SequencePlan> sequences_;
  ProposalTree trees_[kRequests];
  std::vector<float> promised_;  // By sequence of the last plan.
  std::vector<TreeBounds> bounds_;
  std::vector<bool> ended_ = std::vector<bool>(kRequests, false);
};

constexpr DraftShape kTree{.top_k = 3, .depth = 5};

// Both run until every sequence has ended; returns how many rounds that took.
int ExpectSameRounds(Batch& host, Batch& device, int lease, int budget,
                     int nodes_per_tree) {
  int num_rounds = 0;
  while (!host.AllEnded() && num_rounds < 400) {
    const std::vector<Round> expected =
        host.HostRounds(lease, budget, nodes_per_tree);
    const std::vector<Round> actual =
        device.LeasedRounds(lease, budget, nodes_per_tree);
    EXPECT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
      EXPECT_EQ(actual[i].forest, expected[i].forest)
          << "round " << num_rounds + static_cast<int>(i);
      EXPECT_EQ(actual[i].emitted, expected[i].emitted);
      EXPECT_EQ(actual[i].committed, expected[i].committed);
      EXPECT_EQ(actual[i].promised, expected[i].promised);
    }
    if (::testing::Test::HasFailure()) break;
    num_rounds += static_cast<int>(expected.size());
  }
  EXPECT_TRUE(device.AllEnded());
  return num_rounds;
}

TEST(EngineLeaseTest, RoundsAreThoseOfTheHostNodeForNode) {
  for (const int lease : {2, 4, kMaxLeaseRounds}) {
    SCOPED_TRACE(lease);
    Batch host(kTree);
    Batch device(kTree);
    // Requests compete for the budget, and end in different rounds.
    for (Batch* batch : {&host, &device}) {
      batch->sequence(0).max_new_tokens = 17;
      batch->sequence(2).max_new_tokens = 58;
    }

    const int rounds =
        ExpectSameRounds(host, device, lease, /*budget=*/40, kNodesPerTree);

    EXPECT_GT(rounds, 2 * lease);
  }
}

// One tree has a floor and outlives the requests that compete with it, one has
// a cap below what the budget would give, and one has both.
TEST(EngineLeaseTest, RoundsKeepToTheBoundsOfEveryTree) {
  const std::vector<TreeBounds> bounds = {{.floor = 9, .cap = kNodesPerTree},
                                          {.floor = 1, .cap = 3},
                                          {.floor = 4, .cap = 5}};
  Batch host(kTree);
  Batch device(kTree);
  Batch unbound(kTree);
  for (Batch* batch : {&host, &device}) {
    batch->SetBounds(bounds);
    batch->sequence(1).max_new_tokens = 31;
    batch->sequence(2).max_new_tokens = 58;
  }
  const int budget = 16;

  const std::vector<Round> first = device.LeasedRounds(4, budget, 24);

  ASSERT_EQ(first.size(), 4u);
  for (const Round& round : first) {
    for (int b = 0; b < kRequests; ++b) {
      const int nodes =
          round.forest.first_node[b + 1] - round.forest.first_node[b];
      EXPECT_GE(nodes, bounds[b].floor);
      EXPECT_LE(nodes, bounds[b].cap);
    }
  }
  EXPECT_NE(first[1].forest, unbound.LeasedRounds(4, budget, 24)[1].forest);
  host.HostRounds(4, budget, 24);
  ExpectSameRounds(host, device, 5, budget, kNodesPerTree);
}

TEST(EngineLeaseTest, AStopTokenEndsASequenceWithinALease) {
  // This run shows what the sequences emit, to choose stop tokens from it.
  Batch scout(kTree);
  std::vector<int32_t> stops;
  const std::vector<Round> rounds =
      scout.HostRounds(6, /*budget=*/30, /*nodes_per_tree=*/12);
  for (int b = 0; b < kRequests; ++b) {
    ASSERT_FALSE(rounds[1 + b].emitted[b].empty());
    stops.push_back(rounds[1 + b].emitted[b].front());
  }
  Batch host(kTree);
  Batch device(kTree);
  for (Batch* batch : {&host, &device}) {
    for (int b = 0; b < kRequests; ++b) {
      batch->sequence(b).stop_tokens = {stops[b]};
    }
  }

  const int num_rounds = ExpectSameRounds(host, device, kMaxLeaseRounds,
                                          /*budget=*/30, /*nodes_per_tree=*/12);

  // All ended within the first lease, which ended with them.
  EXPECT_LE(num_rounds, 4);
}

TEST(EngineLeaseTest, WithoutADraftRoundsArePlainDecoding) {
  Batch host(std::nullopt);
  Batch device(std::nullopt);
  for (Batch* batch : {&host, &device}) {
    batch->sequence(0).max_new_tokens = 5;
    batch->sequence(1).max_new_tokens = 30;
    batch->sequence(2).max_new_tokens = 12;
  }

  EXPECT_EQ(ExpectSameRounds(host, device, 4, /*budget=*/kRequests,
                             /*nodes_per_tree=*/1),
            30);
}

TEST(EngineLeaseTest, TheEndOfTheContextEndsASequence) {
  Batch host(kTree);
  Batch device(kTree);
  for (Batch* batch : {&host, &device}) {
    for (int b = 0; b < kRequests; ++b) {
      batch->sequence(b).max_new_tokens = kMaxContext;
    }
  }

  ExpectSameRounds(host, device, 5, /*budget=*/60, kNodesPerTree);

  for (int b = 0; b < kRequests; ++b) {
    EXPECT_EQ(device.sequence(b).committed, kMaxContext);
  }
}

TEST(EngineLeaseTest, PagesAreAskedForAllRoundsAhead) {
  Batch batch(kTree);
  const Lease lease{.rounds = 4, .budget = 24, .max_nodes_per_tree = 8};
  const int page = batch.limits().page_size;
  // Room for the planned round with its draft, but not for the later ones.
  SequencePlan& sequence = batch.sequence(1);
  const int planned = sequence.committed + 8 + kTree.num_kv_rows();
  const int pages = (planned + page - 1) / page;
  ASSERT_LT(pages, std::ssize(sequence.pages));
  sequence.pages.erase(sequence.pages.begin() + pages, sequence.pages.end());
  sequence.committed = pages * page - 8 - kTree.num_kv_rows();

  const absl::Status status = batch.TryLease(lease);

  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("KV rows"));
}

// A lease with these bounds on every tree.
Lease WithBounds(const TreeBounds& bounds, int budget = 24) {
  return {.rounds = 2,
          .budget = budget,
          .max_nodes_per_tree = 8,
          .bounds = std::vector(kRequests, bounds)};
}

TEST(EngineLeaseTest, LeasesOutsideOfTheLimitsAreRefused) {
  Batch batch(kTree);
  const Lease good{.rounds = 2, .budget = 24, .max_nodes_per_tree = 8};
  const struct {
    const char* field;
    Lease lease;
  } cases[] = {
      {"rounds", {.rounds = 0, .budget = 24, .max_nodes_per_tree = 8}},
      {"rounds",
       {.rounds = kMaxLeaseRounds + 1, .budget = 24, .max_nodes_per_tree = 8}},
      {"budget", {.rounds = 2, .budget = 2, .max_nodes_per_tree = 8}},
      {"budget", {.rounds = 2, .budget = 100'000, .max_nodes_per_tree = 8}},
      {"max_nodes_per_tree",
       {.rounds = 2, .budget = 24, .max_nodes_per_tree = 0}},
      {"max_nodes_per_tree",
       {.rounds = 2, .budget = 24, .max_nodes_per_tree = 129}},
      {"number of bounds",
       {.rounds = 2,
        .budget = 24,
        .max_nodes_per_tree = 8,
        .bounds = {TreeBounds{.floor = 1, .cap = 8}}}},
      {"cap is 9", WithBounds({.floor = 1, .cap = 9})},
      {"floor is 5", WithBounds({.floor = 5, .cap = 4})},
      {"sum of the floors", WithBounds({.floor = 8, .cap = 8}, /*budget=*/9)},
  };
  for (const auto& c : cases) {
    const absl::Status status = batch.TryLease(c.lease);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(c.field));
  }
  EXPECT_TRUE(batch.TryLease(good).ok());
}

}  // namespace
}  // namespace bole::testing_support
