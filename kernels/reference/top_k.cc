#include "kernels/reference/top_k.h"

#include <algorithm>
#include <cstddef>

#include "kernels/reference/log_softmax.h"

namespace bole::reference {

std::vector<TokenLogit> BestTokens(std::span<const float> logits, int k) {
  std::vector<TokenLogit> best;
  best.reserve(k + 1);
  for (int32_t token = 0; token < std::ssize(logits); ++token) {
    const TokenLogit candidate{CleanLogit(logits[token]), token};
    if (std::ssize(best) == k) {
      if (k == 0 || !IsBetter(candidate, best.back())) continue;
      best.pop_back();
    }
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, IsBetter),
                candidate);
  }
  return best;
}

void TopK(const TopKParams& p, ThreadPool& pool) {
  pool.ParallelFor(*p.rows.count, [&](int row) {
    const std::span<const float> logits(
        p.logits + static_cast<size_t>(row) * p.vocabulary, p.num_valid_tokens);
    const LogSoftmax softmax(logits);
    const std::vector<TokenLogit> best = BestTokens(logits, p.top_k);
    const size_t out = static_cast<size_t>(row) * p.top_k;
    for (size_t i = 0; i < best.size(); ++i) {
      const int32_t column = best[i].token;
      p.token[out + i] = p.token_of == nullptr ? column : p.token_of[column];
      p.log_prob[out + i] = softmax.LogProb(best[i].logit);
    }
  });
}

}  // namespace bole::reference
