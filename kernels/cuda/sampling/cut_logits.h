// Logits whose columns are divided among ranks, in the form that kernels read.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_CUT_LOGITS_H_
#define BOLE_KERNELS_CUDA_SAMPLING_CUT_LOGITS_H_

#include <cstdint>

#include "kernels/cuda/ranks/exchange.h"

namespace bole::cuda {

// The logits of up to kRanks ranks, each of which has some columns of every
// row. A single rank has all columns.
template <int kRanks>
struct LogitParts {
  Exchange<kRanks> ranks;
  const float* part[kRanks];  // [N, columns of the rank], set for every rank
                              // whose logits this one reads.
  int32_t first[kRanks + 1];  // The first column of each rank, then V.

  __host__ __device__ int Columns(int rank) const {
    return first[rank + 1] - first[rank];
  }
  // How many of a rank's columns are among the first `num_tokens` of all.
  __host__ __device__ int Valid(int rank, int num_tokens) const {
    const int valid = num_tokens - first[rank];
    return valid < 0 ? 0 : valid < Columns(rank) ? valid : Columns(rank);
  }
};

// The logits that operators receive: rows divided among several ranks, or whole
// rows.
struct CutLogits {
  bool is_cut;
  LogitParts<1> whole;          // If not is_cut. The operator sets `results`
                                // to its scratch.
  LogitParts<kMaxPeers> parts;  // If is_cut.
};

inline CutLogits WholeLogits(const float* logits, int columns) {
  return {.is_cut = false,
          .whole = {.ranks = {}, .part = {logits}, .first = {0, columns}},
          .parts = {}};
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_CUT_LOGITS_H_
