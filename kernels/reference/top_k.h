#ifndef BOLE_KERNELS_REFERENCE_TOP_K_H_
#define BOLE_KERNELS_REFERENCE_TOP_K_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/thread_pool.h"
#include "kernels/drafting.h"

namespace bole::reference {

struct TokenLogit {
  float logit;
  int32_t token;
};

// Whether a is chosen before b: the higher logit, then the lower id.
inline bool IsBetter(const TokenLogit& a, const TokenLogit& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The k best tokens of a row, best first, or all of them if the row is shorter;
// NaN counts as -inf. COST: O(V) if the best tokens rarely change during the
// scan; meant for k <= kMaxTopLogprobs.
std::vector<TokenLogit> BestTokens(std::span<const float> logits, int k);

// The contract is in kernels/drafting.h.
// REQUIRES: top_k <= num_valid_tokens.
void TopK(const TopKParams& params, ThreadPool& pool);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_TOP_K_H_
