// Norm and rotation of queries and keys, a warp for each head.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_QKV_UNITS_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_QKV_UNITS_CUH_

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cuda/element.cuh"
#include "kernels/tensor.h"

namespace bole::cuda {

// The kernels need bfloat16 and heads of 8 dimensions per lane, rotated in
// whole units of 8.
inline constexpr int kUnit = 8;
inline constexpr int kUnitHeadDim = 32 * kUnit;

inline bool HasUnits(const AttentionShape& s, ElementType type) {
  return type == ElementType::kBFloat16 && s.head_dim == kUnitHeadDim &&
         s.rotary_dim % (2 * kUnit) == 0;
}

struct alignas(16) Unit {
  __nv_bfloat162 pairs[kUnit / 2];
};

__device__ inline Unit LoadUnit(const BFloat16* row) {
  return reinterpret_cast<const Unit*>(row)[threadIdx.x % 32];
}
__device__ inline void StoreUnit(const Unit& unit, BFloat16* row) {
  reinterpret_cast<Unit*>(row)[threadIdx.x % 32] = unit;
}

// A lane's 8 dimensions of a norm's weight.
struct Weight {
  float x[kUnit];

  __device__ explicit Weight(const float* weight) {
    const auto* from = reinterpret_cast<const float4*>(weight) +
                       static_cast<int>(threadIdx.x) % 32 * 2;
    reinterpret_cast<float4&>(x[0]) = from[0];
    reinterpret_cast<float4&>(x[4]) = from[1];
  }
};

// Does what NormAndRotate does. turn[i] holds the cosine and sine of the row's
// i-th angle, scaled.
__device__ inline Unit NormAndRotateUnit(const QkvParams& p, const Unit& in,
                                         const Weight& weight,
                                         const float2* turn) {
  float x[kUnit];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    const __nv_bfloat162 pair = in.pairs[i / 2];
    x[i] = i % 2 == 0 ? __low2float(pair) : __high2float(pair);
    sum += x[i] * x[i];
  }
  const float scale = 1.0f / sqrtf(WarpSum(sum) / kUnitHeadDim + p.epsilon);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int half = p.shape.rotary_dim / 2 / kUnit;  // Lanes.
  const int partner = lane < half ? lane + half : lane - half;
  const bool turns = lane < 2 * half;
  Unit out;
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    const float a = x[i] * scale * weight.x[i];
    const float b = __shfl_sync(~0u, a, partner & 31);
    x[i] = a;
    if (!turns) continue;
    const float2 angle = turn[lane % half * kUnit + i];
    x[i] = a * angle.x + (lane < half ? -b : b) * angle.y;
  }
#pragma unroll
  for (int i = 0; i < kUnit / 2; ++i) {
    out.pairs[i] = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
  }
  return out;
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_QKV_UNITS_CUH_
