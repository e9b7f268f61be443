// The front of a linear layer: tree convolution, SiLU, scales, gates.
//
// A warp takes two neighbouring heads, 16 lanes each, of some rows, and keeps
// their weights in registers. The gates are one more task beside the heads.
#include "kernels/cuda/gdn_conv.cuh"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_gates.cuh"
#include "kernels/cuda/gdn_plain.h"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kHeadsPerBlock = 2 * kWarps;
constexpr int kMaxRowsPerWarp = 16;

// The gates take the place of the first pair behind the heads.
__host__ __device__ int GatesTask(int num_heads) {
  return (num_heads + 1) / 2 * 2;
}

// The gates of a row, a lane for each head.
__device__ void WriteGates(const GdnConvParams& p, int row) {
  const GdnShape& s = p.shape;
  const FactorRows<BFloat16> factors(s, p.factors, p.layer);
  const BFloat16* projected = As<BFloat16>(p.projected) +
                              static_cast<int64_t>(row) * s.projected_width();
  for (int head = static_cast<int>(threadIdx.x % 32); head < s.value_heads;
       head += 32) {
    const float b = ToFloat(projected[s.b_column() + head]);
    const float a = ToFloat(projected[s.a_column() + head]);
    factors.beta(row, head) = Sigmoid(b);
    factors.log_decay(row, head) =
        LogDecay(a, p.negative_exp_a[head], p.dt_bias[head]);
  }
}

// Stores what half a warp has computed of a head.
__device__ void StoreHead(const GdnConvParams& p, int row, int head,
                          const uint4& raw, const uint4& value) {
  const GdnShape& s = p.shape;
  const FactorRows<BFloat16> factors(s, p.factors, p.layer);
  const int lane = static_cast<int>(threadIdx.x) % kHeadLanes;
  // Every lane of the warp takes part in the sums.
  const float inverse_norm = InverseNormOfHead(value);
  if (head >= NumConvHeads(s)) return;
  StoreVector(factors.raw(row) + head * kHeadDim + lane * kVector, raw);
  if (head >= 2 * s.key_heads) {
    StoreVector(factors.v(row, head - 2 * s.key_heads) + lane * kVector, value);
  } else if (head >= s.key_heads) {
    const int key_head = head - s.key_heads;
    StoreVector(factors.k(row, key_head) + lane * kVector, value);
    if (lane == 0) factors.k_scale(row, key_head) = inverse_norm;
  } else {
    const int64_t at = static_cast<int64_t>(row) * s.key_heads + head;
    StoreVector(As<BFloat16>(p.q) + at * kHeadDim + lane * kVector, value);
    const float factor = 1.0f / sqrtf(static_cast<float>(kHeadDim));
    if (lane == 0) p.q_scale[at] = inverse_norm * factor;
  }
}

// Has the lane's channels of the rows brought to the second-level cache, all at
// the same time: the loop below waits for one row after the other.
__device__ void PrefetchRows(const GdnConvParams& p, int first, int count,
                             int channel) {
  for (int i = 0; i < count; ++i) {
    const BFloat16* raw =
        As<BFloat16>(p.projected) +
        static_cast<int64_t>(first + i) * p.shape.projected_width() + channel;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(raw));
  }
}

// LoadTaps for the row behind another one, whose taps are there: of a chain
// only the row itself is loaded.
__device__ void LoadNextTaps(const GdnConvParams& p, const TapRows& taps,
                             const TapRows& next_taps,
                             const uint4 (&raw)[kConvTaps], int channel,
                             uint4 (&next)[kConvTaps]) {
  if (!next_taps.Follows(taps)) {
    LoadTaps(p, next_taps, channel, next);
    return;
  }
#pragma unroll
  for (int t = 0; t < kConvTaps - 1; ++t) next[t] = raw[t + 1];
  next[kConvTaps - 1] =
      LoadVector(As<BFloat16>(p.projected) +
                 static_cast<int64_t>(next_taps.at[kConvTaps - 1]) *
                     p.shape.projected_width() +
                 channel);
}

// Grid: groups of heads and the gates, groups of rows.
__global__ void __launch_bounds__(32 * kWarps)
    ConvKernel(const __grid_constant__ GdnConvParams p, int rows_per_warp) {
  const int num_heads = NumConvHeads(p.shape);
  const int warp_head =
      static_cast<int>(blockIdx.x * kHeadsPerBlock + threadIdx.x / 32 * 2);
  const int head = warp_head + static_cast<int>(threadIdx.x % 32) / kHeadLanes;
  const int channel = min(head, num_heads - 1) * kHeadDim +
                      static_cast<int>(threadIdx.x) % kHeadLanes * kVector;
  ConvWeights weights;
  if (warp_head < num_heads) weights.Load(p.conv_weight, channel);
  WaitForPrevious();
  StartNext();

  const int first = static_cast<int>(blockIdx.y) * rows_per_warp;
  const int count = min(rows_per_warp, *p.batch.rows.count - first);
  if (count <= 0) return;
  if (warp_head == GatesTask(num_heads)) {
    for (int i = 0; i < count; ++i) WriteGates(p, first + i);
  }
  if (warp_head >= num_heads) return;
  PrefetchRows(p, first, count, channel);
  const int own = min(static_cast<int>(threadIdx.x % 32), count - 1);
  const TapRows own_taps = TapRows::Of(p.batch, first + own);
  TapRows taps = own_taps.FromLane(0);
  uint4 raw[kConvTaps];
  LoadTaps(p, taps, channel, raw);
  for (int i = 0; i < count; ++i) {
    // The next row's are on their way while this row is computed.
    const TapRows next_taps = own_taps.FromLane(i + 1);
    uint4 next[kConvTaps];
    if (i + 1 < count) LoadNextTaps(p, taps, next_taps, raw, channel, next);
    StoreHead(p, first + i, head, raw[kConvTaps - 1], Convolve(weights, raw));
#pragma unroll
    for (int t = 0; t < kConvTaps; ++t) raw[t] = next[t];
    taps = next_taps;
  }
}

// Few rows: spread over the GPU. Many: as many warps as run at a time, so that
// each loads its weights once.
int RowsPerWarp(int num_rows, int num_heads) {
  constexpr int kWarpsAtATime = 132 * 20;
  const int64_t warps = static_cast<int64_t>(num_rows) * (num_heads / 2 + 1);
  return static_cast<int>(std::clamp<int64_t>(
      (warps + kWarpsAtATime - 1) / kWarpsAtATime, 1, kMaxRowsPerWarp));
}

}  // namespace

absl::Status GdnConv(const GdnConvParams& params, const Launch& on) {
  if (on.type != ElementType::kBFloat16 || !FitsVectorConv(params.shape)) {
    return PlainGdnConv(params, on);
  }
  const int num_heads = NumConvHeads(params.shape);
  const int rows_per_warp = RowsPerWarp(params.batch.rows.max, num_heads);
  const int num_rows = params.batch.rows.max;
  const dim3 grid(GatesTask(num_heads) / kHeadsPerBlock + 1,
                  (num_rows + rows_per_warp - 1) / rows_per_warp);
  return LaunchDependent("GdnConv", ConvKernel,
                         {.grid = grid, .block = 32 * kWarps}, on, params,
                         rows_per_warp);
}

}  // namespace bole::cuda
