// Proposals with a stated chance of being right.
#ifndef BOLE_TESTS_SIMULATION_SIMULATED_DRAFTER_H_
#define BOLE_TESTS_SIMULATION_SIMULATED_DRAFTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/draft_shape.h"
#include "common/proposal_tree.h"
#include "tests/simulation/simulated_text.h"

namespace bole::simulation {

// A tree of `shape` whose root is the pending token `root` after `history`.
//
// Where the path to a node is what the model writes, its children hold the next
// token with probability accept[depth of the children - 1]; the last entry
// stands for all deeper levels. The k-th child has a share of 2^-k of that, in
// its chance of being right as in its draft probability, so that log_rho
// promises what comes true. As with the real drafter, the top_k likeliest nodes
// of a level get children, so that a right node may have none.
//
// REQUIRES: `accept` is not empty, each in [0, 1]; the alphabet has more than
// shape.top_k tokens. COST: O(candidates).
ProposalTree Propose(const TextOptions& text, std::span<const double> accept,
                     const TokenRule& rule, const History& history,
                     int32_t root, const DraftShape& shape);

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_SIMULATED_DRAFTER_H_
