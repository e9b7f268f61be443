// What the scheduler does between two rounds for a whole batch: which nodes are
// verified, and the forest that the worker gets.
//
//   bazel run //tests/bench:select_bench -- --benchmark_repetitions=9
//
// Arguments: requests, candidates of each, budget.
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

void SelectAndPack(benchmark::State& state) {
  std::mt19937 rng(1);
  std::vector<ProposalTree> trees;
  trees.reserve(static_cast<size_t>(state.range(0)));
  for (int i = 0; i < state.range(0); ++i) {
    trees.push_back(testing::RandomTree(rng, static_cast<int>(state.range(1))));
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(PackForest(
        trees, SelectNodes(trees, static_cast<int>(state.range(2)))));
  }
}

BENCHMARK(SelectAndPack)
    ->Args({16, 116, 256})
    ->Args({256, 116, 1024})
    ->Args({256, 116, 4096})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bole
