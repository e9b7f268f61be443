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

// How many rows, each with results of so many bytes, are exchanged at a time:
// what several ranks tell must fit kExchangeBytes.
template <int kRanks>
int RowsAtOnce(const Exchange<kRanks>& /*x*/, int rows, size_t row_bytes) {
  return kRanks == 1 ? rows
                     : std::min(rows, RowsThatFit(kExchangeBytes, row_bytes));
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_EXCHANGE_H_
