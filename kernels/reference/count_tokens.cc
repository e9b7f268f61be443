#include "kernels/reference/count_tokens.h"

#include <algorithm>
#include <cstddef>

namespace bole::reference {

void CountTokens(const CountTokensParams& p) {
  for (int b = 0; b < p.batch.max_requests; ++b) {
    const bool is_used = p.batch.first_row[b] < p.batch.first_row[b + 1];
    if (!is_used) continue;
    const SamplingControl& control = p.control[b];
    int32_t* count =
        p.counts.count + static_cast<size_t>(p.batch.slot[b]) * p.vocabulary;
    const int32_t committed = p.batch.committed[b];
    if (committed == 0) std::fill_n(count, p.vocabulary, 0);
    for (int j = p.path.first[b]; j < p.path.first[b + 1]; ++j) {
      const int32_t row = p.path.row[j];
      CountToken(control, committed + p.batch.depth[row], p.token[row], count);
    }
  }
}

void OutputToPrompt(const OutputToPromptParams& p) {
  int32_t* count = p.counts.count + static_cast<size_t>(p.slot) * p.vocabulary;
  for (int v = 0; v < p.vocabulary; ++v) {
    count[v] = count[v] > 0 ? kPromptToken : 0;
  }
}

}  // namespace bole::reference
