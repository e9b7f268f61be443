// Operations of a whole block of kThreads on a row of logits. The order of
// every sum is fixed, so that the bits depend on the row alone.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_BLOCK_OPS_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_BLOCK_OPS_CUH_

#include <cstdint>

#include "cuda_runtime.h"
#include "kernels/cuda/sampling/token_order.cuh"

namespace bole::cuda {

// Calls f(v, logits[v]) for the tokens begin .. end - 1, each in one thread,
// with several loads in flight at a time. Logits of this and of other GPUs are
// loaded alike, and never as read-only data.
template <int kThreads, typename F>
__device__ void ForEachLogit(const float* logits, int begin, int end,
                             const F& f) {
  constexpr int kLoads = 8;
  for (int first = begin + static_cast<int>(threadIdx.x); first < end;
       first += kThreads * kLoads) {
    float logit[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int v = first + i * kThreads;
      logit[i] = v < end ? logits[v] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int v = first + i * kThreads;
      if (v < end) f(v, logit[i]);
    }
  }
}

__device__ inline double WarpSum(double x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, offset);
  }
  return x;
}

// Returns the sum over the block in every thread; `shared` holds one value for
// each warp. Synchronises the block, as the functions below do.
template <int kThreads>
__device__ double BlockSum(double x, double* shared) {
  x = WarpSum(x);
  __syncthreads();  // An earlier call may still read `shared`.
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += shared[warp];
  return sum;
}

// The largest rank of the block.
template <int kThreads>
__device__ Rank BlockMax(Rank x, Rank* shared) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const Rank other = __shfl_xor_sync(0xffffffffu, x, offset);
    x = other > x ? other : x;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  Rank max = shared[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) {
    max = shared[warp] > max ? shared[warp] : max;
  }
  return max;
}

struct Prefix {
  int before;  // The sum over the threads before this one.
  int total;
};

template <int kThreads>
__device__ Prefix BlockPrefix(int x, int* shared) {
  const int lane = threadIdx.x % 32;
  int through = x;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, through, offset);
    if (lane >= offset) through += other;
  }
  __syncthreads();
  if (lane == 31) shared[threadIdx.x / 32] = through;
  __syncthreads();
  Prefix prefix = {through - x, 0};
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    if (warp < static_cast<int>(threadIdx.x / 32)) {
      prefix.before += shared[warp];
    }
    prefix.total += shared[warp];
  }
  return prefix;
}

// The sum over the threads before this one.
template <int kThreads>
__device__ double BlockSumBefore(double x, double* shared) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  double through = x;
  for (int offset = 1; offset < 32; offset *= 2) {
    const double other = __shfl_up_sync(0xffffffffu, through, offset);
    if (lane >= offset) through += other;
  }
  __syncthreads();
  if (lane == 31) shared[warp] = through;
  __syncthreads();
  double before = 0;
  for (int w = 0; w < warp; ++w) before += shared[w];
  return before + (through - x);
}

// Sorts in ascending order. Called by all threads of a block. The size is a
// power of two.
__device__ inline void SortShared(uint64_t* key, int size) {
  for (int run = 2; run <= size; run *= 2) {
    for (int stride = run / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < size / 2; i += blockDim.x) {
        const int low = 2 * i - (i & (stride - 1));
        const int high = low + stride;
        const bool ascends = (low & run) == 0;
        const uint64_t a = key[low];
        const uint64_t b = key[high];
        if ((a > b) != ascends) continue;
        key[low] = b;
        key[high] = a;
      }
    }
  }
  __syncthreads();
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_BLOCK_OPS_CUH_
