// Merges parts of the rows of tiled attention, each of which covers other
// tokens.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_PARTS_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_PARTS_CUH_

#include <cmath>

#include "cuda_runtime.h"
#include "kernels/cuda/attention/attention_ring.cuh"
#include "kernels/cuda/attention/attention_rows.cuh"
#include "kernels/cuda/element.cuh"

namespace bole::cuda {

// Rows that a warp merges at a time, so that their loads overlap.
constexpr int kMergeRows = 4;

// A row, of which a lane holds the four columns from 4 lane on, and the four
// from 128 + 4 lane on.
struct MergedRow {
  float max;
  float sum;
  float4 out[2];
};

// Loads four elements from the cluster's shared memory, or from scratch, where
// the load bypasses L1.
__device__ inline float4 LoadPart(const float* from, bool in_scratch) {
  if (!in_scratch) return *reinterpret_cast<const float4*>(from);
  float4 x;
  asm volatile("ld.relaxed.gpu.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(from)
               : "memory");
  return x;
}

// Returns the warp's largest value in every lane.
__device__ inline float WarpMax(float x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
  }
  return x;
}

__device__ inline void AddScaled(float scale, const float4& x, float4& sum) {
  sum.x += scale * x.x;
  sum.y += scale * x.y;
  sum.z += scale * x.z;
  sum.w += scale * x.w;
}

// The order in which parts are merged: from `first` on, wrapping around.
struct MergeOrder {
  int first;
  int count;  // <= 32

  __device__ int Part(int i) const {
    const int part = first + i;
    return part < count ? part : part - count;
  }
};

// Merges the parts of each of the first `live` rows; lane i has the addresses
// of part i. The loads of kMergeRows parts overlap: one part of each row, or
// several parts if there is only one row.
__device__ inline void Merge(const MergeOrder& order, int live, bool in_scratch,
                             const PartialRow* const (&parts)[kMergeRows],
                             MergedRow (&merged)[kMergeRows]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool is_one = live == 1;
  float scale[kMergeRows];
  float4 found[kMergeRows];  // max, sum
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k) {
    found[k] = {-INFINITY, 0, 0, 0};
    if (lane < order.count && k < live) {
      found[k] = LoadPart(&parts[k]->max, in_scratch);
    }
  }
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k) {
    merged[k] = {};
    merged[k].max = WarpMax(found[k].x);
    scale[k] = Rescale(found[k].x, merged[k].max);
    merged[k].sum = WarpSum(scale[k] * found[k].y);
  }
#pragma unroll 1
  for (int i = 0; i < order.count; i += is_one ? kMergeRows : 1) {
    float4 x[kMergeRows][2];
    float part_scale[kMergeRows];
#pragma unroll
    for (int k = 0; k < kMergeRows; ++k) {
      const int index = order.Part(is_one ? min(i + k, order.count - 1) : i);
      const auto part = reinterpret_cast<const PartialRow*>(__shfl_sync(
          ~0u,
          reinterpret_cast<unsigned long long>(is_one ? parts[0] : parts[k]),
          index));
      part_scale[k] = __shfl_sync(~0u, is_one ? scale[0] : scale[k], index);
      if (is_one && i + k >= order.count) part_scale[k] = 0;
      x[k][0] = LoadPart(part->out + 4 * lane, in_scratch);
      x[k][1] = LoadPart(part->out + 4 * lane + 128, in_scratch);
    }
#pragma unroll
    for (int k = 0; k < kMergeRows; ++k) {
      AddScaled(part_scale[k], x[k][0], merged[k].out[0]);
      AddScaled(part_scale[k], x[k][1], merged[k].out[1]);
    }
  }
  if (!is_one) return;
#pragma unroll
  for (int k = 1; k < kMergeRows; ++k) {
    AddScaled(1.0f, merged[k].out[0], merged[0].out[0]);
    AddScaled(1.0f, merged[k].out[1], merged[0].out[1]);
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_PARTS_CUH_
