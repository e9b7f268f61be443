// What a kernel finds on every rank, told to the kernel behind it on all ranks.
#ifndef BOLE_KERNELS_CUDA_RANKS_EXCHANGE_H_
#define BOLE_KERNELS_CUDA_RANKS_EXCHANGE_H_

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {

// Two kernels of each rank: every rank's first one writes its results into the
// memory of all ranks, and the second one, queued behind it, waits until all
// have (exchange.cuh). All ranks make the same exchanges in the same order,
// with the same grids. What the first kernels have read is not read any more by
// another rank once the second one has ended, if the second reads only results.
//
// Two buffers do: a rank writes to a buffer again two exchanges later, after
// its second kernel of the next exchange has ended, and so after every rank has
// sent that one, which it did after it had read this one.
//
// For up to kRanks ranks. One rank exchanges with itself, at no cost.
template <int kRanks>
struct Exchange {
  PushGroup group;

  __host__ __device__ int rank() const { return group.rank; }
  __host__ __device__ int count() const { return group.count; }
};

template <>
struct Exchange<1> {
  void* results;

  __host__ __device__ static constexpr int rank() { return 0; }
  __host__ __device__ static constexpr int count() { return 1; }
};

// Of so many rows, each with results of so many bytes, how many are exchanged
// at a time: those of several ranks must fit kExchangeBytes.
inline int RowsAtOnce(int num_ranks, int rows, size_t row_bytes) {
  if (num_ranks == 1) return std::max(rows, 1);
  const size_t fit = kExchangeBytes / std::max<size_t>(row_bytes, 1);
  return static_cast<int>(
      std::clamp<size_t>(fit, 1, static_cast<size_t>(std::max(rows, 1))));
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_EXCHANGE_H_
