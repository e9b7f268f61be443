// Elements of activations, and sums over a warp or a block.
#ifndef BOLE_KERNELS_CUDA_ELEMENT_CUH_
#define BOLE_KERNELS_CUDA_ELEMENT_CUH_

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/tensor.h"

namespace bole::cuda {

using BFloat16 = __nv_bfloat16;

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(BFloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T FromFloat(float x);
template <>
__device__ inline float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ inline BFloat16 FromFloat<BFloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Converts an Activation* to the element type that it has on this backend.
template <typename T>
__host__ __device__ const T* As(const Activation* x) {
  return reinterpret_cast<const T*>(x);
}
template <typename T>
__host__ __device__ T* As(Activation* x) {
  return reinterpret_cast<T*>(x);
}

// Calls f with a value of the element type: f(float()) or f(BFloat16()).
template <typename F>
void WithElement(ElementType type, const F& f) {
  if (type == ElementType::kFloat32) {
    f(float());
  } else {
    f(BFloat16());
  }
}

__device__ inline float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float Silu(float x) { return x / (1.0f + expf(-x)); }

// The sum over the warp, in every lane.
__device__ inline float WarpSum(float x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, offset);
  }
  return x;
}

// The sum over a block of kThreads, in every thread; `shared` holds a float for
// each warp. Synchronises the block.
template <int kThreads>
__device__ float BlockSum(float x, float* shared) {
  x = WarpSum(x);
  __syncthreads();  // An earlier call may still read `shared`.
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += shared[warp];
  return sum;
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ELEMENT_CUH_
