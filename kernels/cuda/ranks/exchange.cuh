// The two ends of an exchange (exchange.h). Whole blocks call these functions.
#ifndef BOLE_KERNELS_CUDA_RANKS_EXCHANGE_CUH_
#define BOLE_KERNELS_CUDA_RANKS_EXCHANGE_CUH_

#include <cstdint>

#include "kernels/cuda/ranks/exchange.h"
#include "kernels/cuda/ranks/push.cuh"

namespace bole::cuda {

// How many exchanges came before this one.
template <int kRanks>
__device__ uint64_t NumberOf(const Exchange<kRanks>& x) {
  if constexpr (kRanks == 1) {
    return 0;
  } else {
    return LoadOwnCount(&CountsOf(x.group, x.group.rank)->exchanges) /
           kCallUnits;
  }
}

// Where the results of the exchange whose number is `call` lie on a rank.
template <int kRanks>
__device__ void* ResultsOn(const Exchange<kRanks>& x, int rank, uint64_t call) {
  if constexpr (kRanks == 1) {
    return x.results;
  } else {
    return x.group.arena[rank] + ExchangeOffset(x.group.count) +
           call % kExchangeBuffers * kExchangeBytes;
  }
}

// Every block calls it at the end of the first kernel, even if it sends
// nothing.
template <int kRanks>
__device__ void EndSending(const Exchange<kRanks>& x) {
  if constexpr (kRanks > 1) {
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x < x.group.count) {
      AddToCount(&CountsOf(x.group, threadIdx.x)->told[x.group.rank],
                 BlockUnits());
    }
  }
}

// Every block calls it at the beginning of the second kernel. Returns the
// results of all ranks.
template <int kRanks>
__device__ void* AwaitResults(const Exchange<kRanks>& x) {
  const uint64_t call = NumberOf(x);
  if constexpr (kRanks > 1) {
    PushCounts* const own = CountsOf(x.group, x.group.rank);
    WaitForRanks(x.group, own->told, (call + 1) * kCallUnits);
    // All threads have read the number.
    if (threadIdx.x == 0) AddToOwnCount(&own->exchanges, BlockUnits());
  }
  return ResultsOn(x, x.rank(), call);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_EXCHANGE_CUH_
