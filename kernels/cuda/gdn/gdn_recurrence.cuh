// The gated delta rule on rows of the state held in registers (Eq. 1).
#ifndef BOLE_KERNELS_CUDA_GDN_GDN_RECURRENCE_CUH_
#define BOLE_KERNELS_CUDA_GDN_GDN_RECURRENCE_CUH_

#include <type_traits>

#include "kernels/cuda/element.cuh"

namespace bole::cuda {

// A vector of key_dim <= 32 * kPerLane elements over a warp: element
// lane + 32 * i is value[i] of that lane, zero beyond the end.
template <int kPerLane>
struct WarpVector {
  float value[kPerLane];

  __device__ void Clear() {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) value[i] = 0;
  }
  template <typename T>
  __device__ void Load(const T* from, int size) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int c = static_cast<int>(threadIdx.x % 32) + 32 * i;
      value[i] = c < size ? ToFloat(from[c]) : 0.0f;
    }
  }
  template <typename T>
  __device__ void LoadScaled(const T* from, float scale, int size) {
    Load(from, size);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) value[i] = __fmul_rn(value[i], scale);
  }
  __device__ void Store(float* to, int size) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int c = static_cast<int>(threadIdx.x % 32) + 32 * i;
      if (c < size) to[c] = value[i];
    }
  }
};

// Returns the sum of products in every lane.
template <int kPerLane>
__device__ float Dot(const WarpVector<kPerLane>& a,
                     const WarpVector<kPerLane>& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    sum = __fmaf_rn(a.value[i], b.value[i], sum);
  }
  return WarpSum(sum);
}

// Advances one row of the state by one token. Every rounding is explicit, so
// that all callers get the same bits from the same operands.
template <int kPerLane>
__device__ void Advance(WarpVector<kPerLane>& state,
                        const WarpVector<kPerLane>& k, float decay, float beta,
                        float v) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    state.value[i] = __fmul_rn(state.value[i], decay);
  }
  const float u = __fmul_rn(beta, __fsub_rn(v, Dot(state, k)));
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    state.value[i] = __fmaf_rn(u, k.value[i], state.value[i]);
  }
}

// Calls f(std::integral_constant<int, kPerLane>()) with the number of elements
// per lane that suffices for `dim`. Returns false without a call if no version
// is wide enough.
template <typename F>
bool WithPerLane(int dim, const F& f) {
  if (dim <= 32) {
    f(std::integral_constant<int, 1>());
  } else if (dim <= 64) {
    f(std::integral_constant<int, 2>());
  } else if (dim <= 128) {
    f(std::integral_constant<int, 4>());
  } else if (dim <= 256) {
    f(std::integral_constant<int, 8>());
  } else {
    return false;
  }
  return true;
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_GDN_RECURRENCE_CUH_
