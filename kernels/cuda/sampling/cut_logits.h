// Logits whose columns are cut among ranks, as kernels see them.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_CUT_LOGITS_H_
#define BOLE_KERNELS_CUDA_SAMPLING_CUT_LOGITS_H_

#include <cstdint>

#include "kernels/cuda/ranks/exchange.h"

namespace bole::cuda {

// Of up to kRanks ranks, each with some columns of every row. One rank has all.
template <int kRanks>
struct LogitParts {
  Exchange<kRanks> ranks;
  const float* part[kRanks];  // [N, columns of the rank], of every rank whose
                              // logits this one reads.
  int32_t first[kRanks + 1];  // The column of rows where each begins; V.

  __host__ __device__ int Columns(int rank) const {
    return first[rank + 1] - first[rank];
  }
  // How many of a rank's columns are among the first `num_tokens` of all.
  __host__ __device__ int Valid(int rank, int num_tokens) const {
    const int valid = num_tokens - first[rank];
    return valid < 0 ? 0 : valid < Columns(rank) ? valid : Columns(rank);
  }
};

// What operators get: rows that are cut among several ranks, or whole ones.
struct CutLogits {
  bool is_cut;
  LogitParts<1> whole;          // If they are whole. Its results are set when
                                // it is known where they go.
  LogitParts<kMaxPeers> parts;  // If they are cut.
};

inline CutLogits WholeLogits(const float* logits, int columns) {
  return {.is_cut = false,
          .whole = {.ranks = {}, .part = {logits}, .first = {0, columns}},
          .parts = {}};
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_CUT_LOGITS_H_
