// What the kernels of mixtures share: a thread's place, the order of logits,
// and a product on tensor cores of rows as they lie in memory.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_LANES_CUH_
#define BOLE_KERNELS_CUDA_MOE_MOE_LANES_CUH_

#include <cstdint>

#include "kernels/cuda/mma.cuh"

namespace bole::cuda::moe {

inline constexpr unsigned kAllLanes = 0xffffffffu;
__device__ inline int Lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int Warp() { return static_cast<int>(threadIdx.x) / 32; }

// Greater for a better logit; not-a-numbers have a place in the order too.
__device__ inline uint32_t OrderedLogit(float logit) {
  const uint32_t bits = __float_as_uint(logit);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float FromOrdered(uint32_t key) {
  return __uint_as_float(key >> 31 != 0 ? key & 0x7fffffffu : ~key);
}

// A product of 16 rows of weights with 8 rows of x sums over columns, which may
// come in any order. So it takes a span of columns as it lies in memory: a lane
// has 8 neighbours, 16 bytes, of each of its rows, which are the operands of
// two products (mma.cuh).
inline constexpr int kSpanColumns = 32;

// sum += 16 rows of weights by 8 rows of x, of one span. A lane has weights of
// row Lane() / 4 (low) and of row Lane() / 4 + 8 (high), and x of row
// Lane() / 4.
__device__ inline void MultiplySpan(float (&sum)[4], const uint4& low,
                                    const uint4& high, const uint4& x) {
  const uint32_t first[4] = {low.x, high.x, low.y, high.y};
  const uint32_t second[4] = {low.z, high.z, low.w, high.w};
  MultiplyAdd(sum, first, x.x, x.y);
  MultiplyAdd(sum, second, x.z, x.w);
}

}  // namespace bole::cuda::moe

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_LANES_CUH_
