// The expected number of accepted drafts, from how often drafts are right.
#ifndef BOLE_COMMON_EXPECTED_ACCEPTANCE_H_
#define BOLE_COMMON_EXPECTED_ACCEPTANCE_H_

#include <vector>

#include "common/draft_shape.h"

namespace bole {

// How often the r-th likeliest child of a node is the next token, given that
// the path to the node is what the model writes: [depth of the child - 1][r].
// The last row stands for all deeper levels. No row is empty, all are in
// [0, 1], and none adds up to more than 1.
using RankChances = std::vector<std::vector<double>>;

// The chances of a drafter whose likeliest child is right with probability
// `first` at any depth. The second rank has half of the smaller of `first` and
// 1 - `first`, and each further rank half of the previous one. This fits the
// demo model: `first` 0.74 predicts 2.69, 3.63, 4.24 and 4.87 tokens for chains
// of 3 and trees of 9, 17 and 33 nodes; the measured values are 2.65, 3.79,
// 4.34 and 4.84 (tests/bench/README.md).
//
// REQUIRES: 0 <= first <= 1; count > 0.
RankChances HalvingChances(double first, int count);

// Expected accepted drafts of one verification, by how many of the likeliest
// nodes of a draft of `shape` are verified besides its root: entry 0 is 0, and
// the last one is for the whole draft. All contexts are assumed to be alike: a
// drafter that knows how certain it is does better with trees that it grows for
// each context.
//
// The draft has the nodes that Drafter::Grow() would give it: the likeliest
// top_k of a level have children. Ranks that `chances` lacks count as never
// right. COST: O(n log n) of the candidates.
std::vector<double> ExpectedDrafts(const RankChances& chances,
                                   const DraftShape& shape);

// The `first` of HalvingChances() with which `nodes` nodes of a draft of
// `shape`, its root included, bring `mean_tokens` tokens on average, the
// model's own included; 0 or 1 if no chance brings as little or as much.
//
// REQUIRES: nodes > 1.
double FitFirstChance(double mean_tokens, const DraftShape& shape, int nodes);

}  // namespace bole

#endif  // BOLE_COMMON_EXPECTED_ACCEPTANCE_H_
