// Trees as drafting makes them, for benchmarks.
#ifndef BOLE_TESTS_BENCH_CUDA_DRAFT_TREES_H_
#define BOLE_TESTS_BENCH_CUDA_DRAFT_TREES_H_

#include <random>
#include <vector>

#include "tests/testing/random_forest.h"

namespace bole::cuda {

struct DraftTreeShape {
  int num_nodes;  // The root included.
  int max_depth;  // The largest depth of a node; the root has 0.
  int top_k;      // Children of a node at most.
};

// The nodes that are most likely to be reached when every node has top_k
// children of random probabilities, numbered breadth first. The tree has
// max_depth if it has more nodes than that.
testing::Parents DraftTree(std::mt19937& rng, const DraftTreeShape& shape);

// From the root to the first of the deepest nodes, cut after `length` nodes.
std::vector<int> DeepestPath(const testing::Parents& parents, int length);

}  // namespace bole::cuda

#endif  // BOLE_TESTS_BENCH_CUDA_DRAFT_TREES_H_
