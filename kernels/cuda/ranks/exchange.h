// Passes what a kernel finds on every rank to the next kernel on all ranks.
#ifndef BOLE_KERNELS_CUDA_RANKS_EXCHANGE_H_
#define BOLE_KERNELS_CUDA_RANKS_EXCHANGE_H_

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {

// An exchange takes two kernels of each rank: every rank's first one writes its
// results into the memory of all ranks, and the second one, queued after it,
// waits until all have done so (exchange.cuh). All ranks make the same
// exchanges in the same order, with the same grids. If the second kernels read
// only results, then once this rank's second kernel has ended, no other rank
// still reads what the first kernels read.
//
// Two buffers suffice: a rank writes to a buffer again two exchanges later,
// after its second kernel of the next exchange has ended. By then every rank
// has sent its results of that next exchange, which it did after it had read
// those of this one.
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

// How many rows, each with `row_bytes` bytes of results, are exchanged at a
// time: with several ranks, the results must fit kExchangeBytes.
template <int kRanks>
int RowsAtOnce(const Exchange<kRanks>& /*x*/, int rows, size_t row_bytes) {
  return kRanks == 1 ? rows
                     : std::min(rows, RowsThatFit(kExchangeBytes, row_bytes));
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_EXCHANGE_H_
