// The right sides of the correction's system, as left operands of products on
// wgmma. For sm_90a only.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_RIGHT_SIDES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_RIGHT_SIDES_CUH_

#include <cstdint>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"

namespace bole::cuda {

// R^T = (V - D_P K S)^T D_beta of 16 nodes and a warp's 16 columns. `first`:
// the lane's first node, 2 (lane % 4) after the first of all. `values`: the
// address of the lane's row of V for LoadTransposed(). keys: the lane's 8 sums
// of (K S)^T. The result is zero from node `count` on, where V and K may hold
// anything.
template <typename Gates>
__device__ __forceinline__ void FormRightSide(const Gates& gates, int first,
                                              int count, uint32_t values,
                                              const float* keys,
                                              SplitOperand& right) {
  uint32_t v[4];
  LoadTransposed(values, v);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const int i = first + n * 8;
    const float2 beta = *reinterpret_cast<const float2*>(gates.beta + i);
    const float2 scale =
        *reinterpret_cast<const float2*>(gates.correction_scale + i);
    const float* const sum = keys + n * 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint32_t pair = v[2 * n + h];
      const float x =
          beta.x * __uint_as_float(pair << 16) - scale.x * sum[2 * h];
      const float y = beta.y * __uint_as_float(pair & 0xffff0000u) -
                      scale.y * sum[2 * h + 1];
      SplitPair(i < count ? x : 0, i + 1 < count ? y : 0, right.high[2 * n + h],
                right.low[2 * n + h]);
    }
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_RIGHT_SIDES_CUH_
