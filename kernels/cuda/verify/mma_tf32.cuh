// Tensor-core products of a warp in tf32, float32 with 10 bits of fraction.
#ifndef BOLE_KERNELS_CUDA_VERIFY_MMA_TF32_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_MMA_TF32_CUH_

#include <cstdint>

#include "cuda_runtime.h"

namespace bole::cuda {

// Rounds to tf32. Returns the bits of the float.
__device__ inline uint32_t ToTf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// sum += a b, 16 x 8 by 8 x 8. For lane 4 g + t: sum holds (g, 2t), (g, 2t+1),
// (g+8, 2t), (g+8, 2t+1). The inner dimension may be in any order; here its
// element t has index 2t and its element t + 4 has index 2t + 1. So a is {(g,
// 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)}, the layout of a sum, and b is {(2t,
// g), (2t+1, g)}.
__device__ inline void MultiplyAddTf32(float (&sum)[4], const uint32_t (&a)[4],
                                       uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %6, %5, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_MMA_TF32_CUH_
