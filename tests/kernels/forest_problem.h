// Candidates of a batch, and room for the forest that is selected from them.
#ifndef BOLE_TESTS_KERNELS_FOREST_PROBLEM_H_
#define BOLE_TESTS_KERNELS_FOREST_PROBLEM_H_

#include <cstdint>
#include <random>

#include "common/draft_shape.h"
#include "common/proposal_tree.h"
#include "kernels/drafting.h"
#include "tests/testing/guarded_buffer.h"

namespace bole::testing {

struct ForestShape {
  int max_requests;
  DraftShape draft;
  int max_rows;
  int max_nodes_per_tree;
  int mask_words;
};

// How the log probabilities of candidates are spread.
enum class CandidateKind {
  kRandom,    // No two are likely to be equal.
  kTies,      // Few different values, some of them -inf.
  kAllEqual,  // All certain.
};

// Inputs are filled, outputs are poison. Copies are independent.
class ForestProblem {
 public:
  // Trees as GrowTrees() makes them: the children of every lane of a level hang
  // on some candidate of the level before. Some requests take no part, and the
  // limits of nodes and depth are often smaller than the tree, as caps are.
  // Some floors are higher than the tree, or leave nothing of the budget.
  ForestProblem(std::mt19937& rng, const ForestShape& in, CandidateKind kind);

  // The parameters, with the pointers that place() returns for every buffer.
  template <typename Place>
  SelectForestParams Params(const Place& place) {
    return {.max_requests = shape.max_requests,
            .max_rows = shape.max_rows,
            .mask_words = shape.mask_words,
            .shape = shape.draft,
            .max_nodes_per_tree = shape.max_nodes_per_tree,
            .budget = place(budget),
            .floor = place(floor),
            .cap = place(cap),
            .root = place(root),
            .node_limit = place(node_limit),
            .depth_limit = place(depth_limit),
            .trees = {.token = place(token),
                      .parent = place(parent),
                      .log_rho = place(log_rho)},
            .num_rows = place(num_rows),
            .first_row = place(first_row),
            .request = place(request),
            .node = place(node),
            .parent = place(row_parent),
            .depth = place(depth),
            .ancestors = place(ancestors),
            .token = place(row_token)};
  }
  SelectForestParams Params() {
    return Params([](auto& buffer) { return buffer.data(); });
  }

  int num_roots() const;
  // Rows that go to the requests by their floors alone, at most.
  int num_owed() const;
  // Node 0 is the root, node c + 1 is candidate c.
  ProposalTree Tree(int request) const;

  ForestShape shape;
  GuardedBuffer<int32_t> budget, floor, cap, root, node_limit, depth_limit;
  GuardedBuffer<int32_t> token, parent;
  GuardedBuffer<float> log_rho;
  // Out:
  GuardedBuffer<int32_t> num_rows, first_row, request, node, row_parent, depth,
      row_token;
  GuardedBuffer<uint32_t> ancestors;

 private:
  void FillTree(std::mt19937& rng, CandidateKind kind, int request);
};

// Every bit of the outputs, unwritten ones included.
void ExpectSameForest(const ForestProblem& got, const ForestProblem& want);

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_FOREST_PROBLEM_H_
