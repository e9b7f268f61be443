// The text of a synthetic model: a Markov chain, and how well a drafter that
// knows it up to noise does.
#ifndef BOLE_WORKER_SERVICE_MODEL_MARKOV_CHAIN_H_
#define BOLE_WORKER_SERVICE_MODEL_MARKOV_CHAIN_H_

#include <array>
#include <cstdint>

#include "common/draft_shape.h"
#include "kernels/generate.h"

namespace bole {

// Token t is followed by Successor(t, m) with probability[m], in the model's
// own distribution (temperature 1, no filters). The likeliest successors make
// one cycle through all tokens.
struct MarkovChain {
  int num_tokens;  // A, a multiple of kSuccessors: ids 0 .. A - 1.
  uint32_t multiplier;
  uint32_t increment;
  std::array<double, kSuccessors> probability;  // Descending; adds up to 1.

  int32_t Successor(int32_t token, int m) const {
    const uint64_t likeliest =
        (uint64_t{multiplier} * static_cast<uint32_t>(token) + increment) %
        static_cast<uint32_t>(num_tokens);
    return static_cast<int32_t>(likeliest) ^ m;
  }
};

// Nats; what kSuccessors probabilities that fall by a power law can have.
inline constexpr double kMinEntropy = 0.05;
inline constexpr double kMaxEntropy = 2.0;

// REQUIRES: A is a multiple of kSuccessors; kMinEntropy <= entropy <=
//     kMaxEntropy.
MarkovChain MakeMarkovChain(int num_tokens, double entropy, uint64_t seed);

// A tree of which so many nodes are verified, the root included.
struct VerifiedTree {
  DraftShape shape;
  int nodes;
};

// Mean tokens of a round of greedy decoding, over `rounds` simulated ones, for
// a drafter that adds normal noise of deviation `noise` to the log probability
// of each successor, anew for each node. COST: about 10 us a round.
double MeanAcceptedTokens(const MarkovChain& chain, double noise,
                          const VerifiedTree& tree, int rounds);

// The noise at which MeanAcceptedTokens() is `accept`, to about 0.05; 0 if even
// a drafter without noise accepts fewer, and kMaxDraftNoise if even that much
// leaves more. COST: half a second.
inline constexpr double kMaxDraftNoise = 16;
double NoiseForAcceptance(const MarkovChain& chain, double accept,
                          const VerifiedTree& tree);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_MARKOV_CHAIN_H_
