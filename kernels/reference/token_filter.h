#ifndef BOLE_KERNELS_REFERENCE_TOKEN_FILTER_H_
#define BOLE_KERNELS_REFERENCE_TOKEN_FILTER_H_

#include <span>
#include <vector>

#include "kernels/reference/top_k.h"
#include "kernels/sampling.h"

namespace bole::reference {

// Whether only some tokens may be drawn.
inline bool HasFilters(const SamplingControl& control) {
  return control.top_k > 0 || control.top_p < 1 || control.min_p > 0;
}

// The tokens that may be drawn, in any order: top-k, then top-p, then min-p, as
// kernels/sampling.h defines them. Tokens are compared by their logits, which
// temperature does not reorder; a token's weight is exp((logit - max) / T).
// Impossible tokens (logit -inf) are never among them.
// REQUIRES: temperature > 0; logits clean (CleanLogit), after bias and
//     penalties; `max` is the largest, > -inf.
// COST: O(V + s log V) for s tokens kept by top-p; O(V log k) at worst.
std::vector<TokenLogit> FilterTokens(std::span<const float> logits, float max,
                                     const SamplingControl& control);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_TOKEN_FILTER_H_
