// The text of a synthetic model: a Markov chain, stretches of which are hard
// for a drafter and others easy.
#ifndef BOLE_WORKER_SERVICE_MODEL_MARKOV_CHAIN_H_
#define BOLE_WORKER_SERVICE_MODEL_MARKOV_CHAIN_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/generate.h"
#include "kernels/markov_text.h"

namespace bole {

struct TextOptions {
  int num_tokens;  // A, a multiple of kStretchTokens.
  // Entropy of the next token, in nats.
  double entropy = 0.5;
  double spread = 1;  // Spread of difficulty; 1 is what was measured; with 0
                      // all of the text is alike and never branches.
  uint64_t seed = 1;
};

// Token t is followed by Successor(t, m) with probability[m], in the model's
// own distribution (temperature 1, no filters); at a branch the first two have
// their mean. From the text that starts anywhere the likeliest successors lead
// through all tokens.
struct MarkovChain {
  TextOptions options;
  MarkovCode code;  // With a drafter that knows everything: SetDraftNoise().
  std::array<double, kSuccessors> probability;  // Descending; adds up to 1.
  double rank_scale;  // Log probabilities are so many times what `code.rank`
                      // holds in kTextUnit; the mean is left out.
  double mean_log_probability;

  int32_t Successor(int32_t token, int m) const {
    return static_cast<int32_t>(LikeliestSuccessor(code, token)) ^ m;
  }
};

// Nats; what kSuccessors probabilities that fall by a power law can have.
inline constexpr double kMinEntropy = 0.05;
inline constexpr double kMaxEntropy = 2.0;
inline constexpr double kMaxSpread = 4;

inline constexpr int kStretchGroups = 16;
inline constexpr int kStretchTokens = kStretchGroups * kSuccessors;

// REQUIRES: options as said there; 0 <= spread <= kMaxSpread;
//     kMinEntropy <= entropy <= kMaxEntropy.
MarkovChain MakeMarkovChain(const TextOptions& options);

// Lets the drafter err. At the middle of the difficulties its log probabilities
// are off by normal noise of deviation `noise`, in nats, and it knows that they
// are; the more noise, the more often it expects another group of successors
// altogether. The noise of other difficulties is larger or smaller by a factor.
// REQUIRES: 0 <= noise <= kMaxDraftNoise.
inline constexpr double kMaxDraftNoise = 1000;
void SetDraftNoise(double noise, MarkovChain& chain);

// Tokens of the chain that a list of frequent ones would leave out: `share` of
// them, in whole groups. The list is all others, ascending.
std::vector<int32_t> ListedTokens(const MarkovChain& chain, double share);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_MARKOV_CHAIN_H_
