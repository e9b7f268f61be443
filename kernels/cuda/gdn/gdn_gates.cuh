// The gates of a linear layer's rows.
#ifndef BOLE_KERNELS_CUDA_GDN_GDN_GATES_CUH_
#define BOLE_KERNELS_CUDA_GDN_GDN_GATES_CUH_

#include "kernels/cuda/element.cuh"

namespace bole::cuda {

inline constexpr float kKeyNormEpsilon = 1e-6f;

__device__ inline float Softplus(float x) {
  // Above this, log(1 + e^x) is x in float32.
  constexpr float kIdentity = 20.0f;
  return x > kIdentity ? x : log1pf(expf(x));
}

__device__ inline float LogDecay(float a, float negative_exp_a, float dt_bias) {
  return negative_exp_a * Softplus(a + dt_bias);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_GDN_GATES_CUH_
