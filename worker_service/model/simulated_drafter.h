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

// A tree of which so many nodes are verified, the root included.
struct VerifiedTree {
  DraftShape shape;
  int nodes;

  // A chain of so many drafts.
  static constexpr VerifiedTree Chain(int drafts) {
    return {.shape = {.top_k = 1, .depth = drafts}, .nodes = drafts + 1};
  }
  friend bool operator==(const VerifiedTree&, const VerifiedTree&) = default;
};

// Requests start at places that are spread over the chain evenly, however many
// they are, and write equally much.
struct SimulatedTexts {
  // Tokens that each request writes.
  int tokens = 32;
  // Rounds that are simulated at least, over all requests.
  int rounds = 4000;
};

// Tokens of every round of greedy decoding, by request, those of its first two
// rounds left out, which do not start where a round ended. The drafter drafts
// `listed` tokens alone, ascending. What differs from the model is that layers
// add a little to logits, and which of a branch's two tokens follows, which
// here is chance. COST: about 12 us a round.
std::vector<std::vector<int>> AcceptedTokens(const MarkovChain& chain,
                                             std::span<const int32_t> listed,
                                             const VerifiedTree& tree,
                                             const SimulatedTexts& texts);

// The mean of a round's accepted tokens; each token of the chain counts alike.
double MeanAcceptedTokens(const MarkovChain& chain,
                          std::span<const int32_t> listed,
                          const VerifiedTree& tree);

// Sets the chain's noise so that MeanAcceptedTokens() is `accept`.
// INVALID_ARGUMENT, with the range that there is, if no noise makes it so.
// COST: half a second.
absl::Status SetAcceptedTokens(double accept, std::span<const int32_t> listed,
                               const VerifiedTree& tree, MarkovChain& chain);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_SIMULATED_DRAFTER_H_
