// Boxes of a state as left operands of products of a warpgroup.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_STATE_BOX_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_STATE_BOX_CUH_

#include "kernels/cuda/mma.cuh"

namespace bole::cuda {

// [64 value columns, 32 keys] of a state as a copy leaves it in shared memory:
// rows of 128 bytes, the 16-byte units permuted.
constexpr int kBoxBytes = 8192;
constexpr int kStateBoxes = 4;

// The warp's 16 columns of a box of the state, 32 keys: two left operands. Even
// and odd rows read the two in different order to avoid bank conflicts.
struct StateBox {
  float2 x[2][4];

  __device__ __forceinline__ void Load(const unsigned char* box) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int g = lane / 4;
    const int t = lane % 4;
    const int row = static_cast<int>(threadIdx.x / 32) % 4 * 16 + g;
    const int unit = g % 2 * 4 ^ t / 2 ^ g;
    const unsigned char* at = box + row * 128 + t % 2 * 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        x[step][i] = *reinterpret_cast<const float2*>(
            at + i % 2 * 1024 + (unit ^ (4 * step + i / 2 * 2)) * 16);
      }
    }
  }

  __device__ __forceinline__ void Split(SplitOperand (&a)[2]) const {
    const bool is_odd = threadIdx.x / 4 % 2 != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 first = is_odd ? x[1][i] : x[0][i];
      const float2 second = is_odd ? x[0][i] : x[1][i];
      SplitPair(first.x, first.y, a[0].high[i], a[0].low[i]);
      SplitPair(second.x, second.y, a[1].high[i], a[1].low[i]);
    }
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_STATE_BOX_CUH_
