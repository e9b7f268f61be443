// The input that the launches of Sample have in common: the logits, and how
// their parts are divided among ranks.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_SAMPLED_LOGITS_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_SAMPLED_LOGITS_CUH_

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/ranks/exchange.h"
#include "kernels/cuda/sampling/cut_logits.h"
#include "kernels/cuda/sampling/part_results.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/sample_groups.cuh"
#include "kernels/sampling.h"

namespace bole::cuda {

// The logits and their division into groups and parts.
template <int kRanks>
struct SampledLogits {
  LogitParts<kRanks> cut;
  bool are_aligned;
  int num_groups;   // G, the groups of all ranks.
  int first_group;  // This rank has groups first_group .. end_group - 1.
  int end_group;
  PartCut parts;

  // The most bytes that the ranks exchange about a row at a time.
  size_t RowBytes() const {
    return std::max(GroupResults::Bytes(1, num_groups),
                    PartResults::RowBytes(parts.num_parts, parts.max_k));
  }
};

template <int kRanks>
SampledLogits<kRanks> LookAt(const SampleParams& params,
                             const LogitParts<kRanks>& logits) {
  const int num_tokens = params.num_valid_tokens;
  const int rank = logits.ranks.rank();
  bool are_aligned = true;
  for (int r = 0; r < logits.ranks.count(); ++r) {
    are_aligned = are_aligned && IsAligned(logits.part[r], logits.Columns(r));
  }
  const int first_group = logits.first[rank] / kGroupTokens;
  return {.cut = logits,
          .are_aligned = are_aligned,
          .num_groups = NumGroups(num_tokens),
          .first_group = first_group,
          .end_group = first_group + NumGroups(logits.Valid(rank, num_tokens)),
          .parts = PartCut::Of(logits, num_tokens,
                               std::min(num_tokens, kMaxTopLogprobs))};
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_SAMPLED_LOGITS_CUH_
