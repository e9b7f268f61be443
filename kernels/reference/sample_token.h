#ifndef BOLE_KERNELS_REFERENCE_SAMPLE_TOKEN_H_
#define BOLE_KERNELS_REFERENCE_SAMPLE_TOKEN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling.h"

namespace bole::reference {

// Draws the tokens of one request along a path, as kernels/sampling.h defines
// it. Penalties: a token that prompt or output has gets its positive logit
// divided, or its negative one multiplied, by repetition_penalty; then
// frequency_penalty is subtracted as often as the output has it, then
// presence_penalty if the output has it.
//
// Draws are the largest (logit - max) / T + GumbelNoise(seed, position, token),
// in float, ties to the lower id.
class TokenDrawer {
 public:
  // `params` must outlive this.
  TokenDrawer(const SampleParams& params, int request);

  // The token that follows `row`, or kNoToken. Call it for a root, then a child
  // of it, and so on: every call adds the row's own token to the history.
  int32_t Draw(int row);

 private:
  void Remember(int row);
  // Returns whether all of the row's logits are numbers.
  bool AdjustLogits(int row);
  // Whether the token that follows may not be a stop token.
  bool BansStops(int row) const;
  void BanStops();
  int32_t DrawFromAll(float max, uint64_t position) const;
  int32_t DrawFiltered(float max, uint64_t position) const;

  const SampleParams& params_;
  const int request_;
  const SamplingControl& control_;
  std::vector<int32_t> count_;  // [V] of the history; empty without penalties.
  std::vector<float> logits_;   // [num_valid_tokens] clean, adjusted.
};

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_SAMPLE_TOKEN_H_
