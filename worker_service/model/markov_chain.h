// The text of a synthetic model: a Markov chain with stretches that are hard
// for a drafter and others that are easy.
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
  double spread = 1;  // Spread of difficulty; 1 is the measured one; with 0
                      // all text is equally difficult and never branches.
  uint64_t seed = 1;
};

// Token t is followed by Successor(t, m) with probability[m], in the model's
// own distribution (temperature 1, no filters); at a branch, each of the first
// two successors has the mean of their probabilities. From any token, the chain
// of likeliest successors leads through all tokens.
struct MarkovChain {
  TextOptions options;
  MarkovCode code;  // Its drafter knows all until SetDraftNoise().
  std::array<double, kSuccessors> probability;  // Descending; adds up to 1.
  double rank_scale;  // The scale of `code.rank`, which holds the log
                      // probabilities without their mean, in kTextUnit.
  double mean_log_probability;

  int32_t Successor(int32_t token, int m) const {
    return static_cast<int32_t>(LikeliestSuccessor(code, token)) ^ m;
  }
};

// The range of the entropy, in nats, that kSuccessors probabilities can have if
// they fall by a power law.
inline constexpr double kMinEntropy = 0.05;
inline constexpr double kMaxEntropy = 2.0;
inline constexpr double kMaxSpread = 4;

inline constexpr int kStretchGroups = 16;
inline constexpr int kStretchTokens = kStretchGroups * kSuccessors;

// REQUIRES: options as described above; 0 <= spread <= kMaxSpread;
//     kMinEntropy <= entropy <= kMaxEntropy.
MarkovChain MakeMarkovChain(const TextOptions& options);

// Lets the drafter err. At medium difficulty, its log probabilities have normal
// noise of standard deviation `noise`, in nats, which the drafter allows for;
// the more noise, the more often it expects an altogether different group of
// successors. At other difficulties the noise is larger or smaller by a factor.
// REQUIRES: 0 <= noise <= kMaxDraftNoise.
inline constexpr double kMaxDraftNoise = 1000;
void SetDraftNoise(double noise, MarkovChain& chain);

// The tokens that a list of frequent tokens contains if it leaves out `share`
// of the chain's tokens, in whole groups. Ascending.
std::vector<int32_t> ListedTokens(const MarkovChain& chain, double share);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_MARKOV_CHAIN_H_
