// How many tokens a synthetic model's drafter gets accepted, without running
// the model.
#ifndef BOLE_WORKER_SERVICE_MODEL_SIMULATED_DRAFTER_H_
#define BOLE_WORKER_SERVICE_MODEL_SIMULATED_DRAFTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/draft_shape.h"
#include "worker_service/model/markov_chain.h"

namespace bole {

// A drafted tree, and how many of its nodes are verified, including the root.
struct VerifiedTree {
  DraftShape shape;
  int nodes;

  // A chain of `drafts` drafts.
  static constexpr VerifiedTree Chain(int drafts) {
    return {.shape = {.top_k = 1, .depth = drafts}, .nodes = drafts + 1};
  }
  friend bool operator==(const VerifiedTree&, const VerifiedTree&) = default;
};

// The simulated requests. Their starts are spread evenly over the chain, for
// any number of requests, and all write the same number of tokens.
struct SimulatedTexts {
  // Tokens that each request writes.
  int tokens = 32;
  // The least number of simulated rounds, over all requests.
  int rounds = 4000;
};

// The number of tokens of every round of greedy decoding, by request, without
// each request's first two rounds, which do not start where a round ended. The
// drafter drafts only the tokens of `listed`, which is ascending. The
// simulation differs from the model in two ways: it ignores the little that
// layers add to logits, and it chooses at random which of a branch's two tokens
// follows. COST: about 12 us per round.
std::vector<std::vector<int>> AcceptedTokens(const MarkovChain& chain,
                                             std::span<const int32_t> listed,
                                             const VerifiedTree& tree,
                                             const SimulatedTexts& texts);

// The mean number of accepted tokens per round; all tokens of the chain weigh
// the same.
double MeanAcceptedTokens(const MarkovChain& chain,
                          std::span<const int32_t> listed,
                          const VerifiedTree& tree);

// Sets the chain's noise so that MeanAcceptedTokens() is `accept`.
// INVALID_ARGUMENT, with the possible range, if no noise achieves that. COST:
// half a second.
absl::Status SetAcceptedTokens(double accept, std::span<const int32_t> listed,
                               const VerifiedTree& tree, MarkovChain& chain);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_SIMULATED_DRAFTER_H_
