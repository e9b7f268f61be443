// One budget for the batch against equal shares of it, on the demo model.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "common/proposal_tree.h"
#include "common/select_nodes.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/eval/generator.h"

namespace bole::testing_support {
namespace {

constexpr int kBatches = 20;
constexpr int kRequests = 8;
constexpr int kRounds = 8;
// More than rounds of trees of depth 8 can bring: no request ends.
constexpr int kMaxTokens = kRounds * 9 + 2;

// What the model writes after a prompt, and what the drafter proposes at each
// of its tokens. Neither depends on which nodes are verified.
struct Written {
  std::vector<int32_t> output;
  std::map<size_t, ProposalTree> trees;  // By the place of their root in it.
};

// `first`: the length of the prompt.
void KeepTrees(const StepResult& result, int32_t first, Written& written) {
  for (const auto* of : {&result.prefills, &result.sequences}) {
    for (const SequenceResult& sequence : *of) {
      if (!sequence.proposal) continue;
      written.trees[sequence.committed - first] = *sequence.proposal;
    }
  }
}

// Greedily, a token at a time, with a tree drafted after each of them.
std::vector<Written> WriteAll() {
  DemoModel& demo = DemoModel::Get();
  std::vector<std::vector<int32_t>> prompts = demo.Prompts();
  prompts.resize(prompts.size() / 2);  // For the sake of time.
  std::vector<Written> all(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    GenerateRequest request{
        .prompt = prompts[i], .sampling = {}, .stop_tokens = {}};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = kMaxTokens;
    GenerateOptions options = Tree(/*draft_nodes=*/32, /*max_batch=*/1);
    options.max_nodes_per_tree = 1;
    const auto first = static_cast<int32_t>(prompts[i].size());
    options.on_step = [&](const StepPlan&, const StepResult& result) {
      KeepTrees(result, first, all[i]);
    };
    all[i].output = Tokens(demo.Run(options, {request}).front());
  }
  return all;
}

// The drafts that so many rounds of a batch accept, `each` nodes for a request
// of it, roots included, shared equally or as SelectNodes() shares them.
int Accepted(const std::vector<Written>& all, const std::vector<size_t>& batch,
             int each, bool is_global) {
  std::vector<size_t> at(batch.size(), 0);  // The places of the roots.
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<ProposalTree> trees;
    for (size_t b = 0; b < batch.size(); ++b) {
      trees.push_back(all[batch[b]].trees.at(at[b]));
    }
    std::vector<size_t> next(trees.size(), 0);  // The last accepted node.
    std::vector<int> length(trees.size(), 0);
    for (const NodeRef ref :
         SelectNodes(trees, each * static_cast<int>(trees.size()),
                     is_global ? std::numeric_limits<int>::max() : each)) {
      const ProposalTree& tree = trees[ref.tree];
      const std::vector<int32_t>& output = all[batch[ref.tree]].output;
      const size_t place = at[ref.tree] + length[ref.tree] + 1;
      if (ref.node == 0 ||
          tree.parent[ref.node] != static_cast<int>(next[ref.tree]) ||
          tree.token[ref.node] != output[place]) {
        continue;
      }
      next[ref.tree] = ref.node;
      ++length[ref.tree];
    }
    for (size_t t = 0; t < trees.size(); ++t) {
      accepted += length[t];
      at[t] += length[t] + 1;
    }
  }
  return accepted;
}

TEST(GlobalSelectionTest, OneBudgetForTheBatchAcceptsMoreThanEqualShares) {
  const std::vector<Written> all = WriteAll();
  for (const Written& written : all) {
    // The last token has no tree that would be verified.
    ASSERT_GE(written.trees.size() + 1, written.output.size());
    for (const auto& [place, tree] : written.trees) {
      if (place >= written.output.size()) continue;
      ASSERT_EQ(tree.token[0], written.output[place]);
    }
  }
  for (const int each : {4, 8, 16}) {
    std::mt19937 rng(20);
    int global = 0;
    int equal = 0;
    int not_worse = 0;
    for (int i = 0; i < kBatches; ++i) {
      std::vector<size_t> batch(all.size());
      for (size_t j = 0; j < batch.size(); ++j) batch[j] = j;
      for (size_t j = 0; j < kRequests; ++j) {
        std::swap(batch[j], batch[j + rng() % (batch.size() - j)]);
      }
      batch.resize(kRequests);
      const int ours = Accepted(all, batch, each, /*is_global=*/true);
      const int theirs = Accepted(all, batch, each, /*is_global=*/false);
      global += ours;
      equal += theirs;
      not_worse += ours >= theirs ? 1 : 0;
    }
    std::printf(
        "{\"bench\": \"global selection\", \"nodes_each\": %d, \"batches\": "
        "%d, \"accepted_global\": %d, \"accepted_equal\": %d, "
        "\"not_worse\": %d}\n",
        each, kBatches, global, equal, not_worse);
    // Half of every tree is so much that how it is shared hardly matters; the
    // drafter's probabilities are not exact enough to tell the rest apart.
    if (each == 16) {
      EXPECT_GE(global, 0.99 * equal);
      continue;
    }
    EXPECT_GE(global, equal) << each;
    EXPECT_GE(not_worse, 18) << each;
  }
}

}  // namespace
}  // namespace bole::testing_support
