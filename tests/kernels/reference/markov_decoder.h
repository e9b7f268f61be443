// Decoding with the sampler alone: the target is a small Markov chain, so that
// logits cost nothing and every probability is known.
#ifndef BOLE_TESTS_KERNELS_REFERENCE_MARKOV_DECODER_H_
#define BOLE_TESTS_KERNELS_REFERENCE_MARKOV_DECODER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/packed_forest.h"
#include "kernels/sampling.h"
#include "tests/kernels/reference/sample_batch.h"

namespace bole::testing {

enum class Drafts {
  kNone,   // Plain decoding.
  kChain,  // Two tokens, each the likeliest after the one before.
  kTree,   // The three likeliest after each node, two levels of them.
};

// Logits depend on the last two tokens, and repeat for a seed.
class MarkovTarget {
 public:
  MarkovTarget(int vocabulary, uint32_t seed);

  int vocabulary() const { return vocabulary_; }
  const std::vector<float>& LogitsAfter(std::span<const int32_t> text) const;

 private:
  int vocabulary_;
  std::vector<std::vector<float>> logits_;  // [V * V, V]
};

struct DecodedText {
  std::vector<int32_t> tokens;  // Without the first.
  std::vector<float> logprobs;
  int accepted = 0;
};

// Decodes `num_tokens` tokens after the text [first_token], once for each of
// `controls`, all in one batch. prompt_length is 1; max_tokens is set here.
std::vector<DecodedText> Decode(const MarkovTarget& target, Drafts drafts,
                                int32_t first_token, int num_tokens,
                                std::span<const SamplingControl> controls);

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_REFERENCE_MARKOV_DECODER_H_
