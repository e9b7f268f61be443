// The front of a linear layer: tree convolution, SiLU, scales, gates.
//
// A block processes two neighbouring heads of some rows. It loads all their raw
// values to shared memory at once; they include most taps of a row. A warp
// computes a row at a time, with 16 lanes for each head. The gates are one more
// task besides the heads.
#include "kernels/cuda/gdn/gdn_conv.cuh"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_gates.cuh"
#include "kernels/cuda/gdn/gdn_plain.h"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kMaxRows = 64;  // Rows of a block.

// The gates take the place of the first pair after the heads.
__host__ __device__ int GatesTask(int num_heads) {
  return (num_heads + 1) / 2 * 2;
}

// What a block loads for its heads. A lane has 8 channels of both members.
struct HeadRows {
  uint4 raw[kMaxRows][32];
  float4 weight[32][kVector];  // Permuted, so that a lane's neighbours read
                               // from other banks.

  __device__ static int Place(int lane, int c) { return c ^ lane % kVector; }

  // Loads the weights of the first num_channels of the block's channels; the
  // others stay as they are.
  __device__ void LoadWeights(const float* conv_weight, int num_channels) {
    for (int i = threadIdx.x; i < 32 * kVector; i += kThreads) {
      if (i >= num_channels) break;
      const int lane = i / kVector;
      CopyAsync16(SharedAddress(&weight[lane][Place(lane, i % kVector)]),
                  conv_weight + i * kConvTaps, /*valid=*/true);
    }
  }
  __device__ void LoadRows(const GdnConvParams& p, int first, int count,
                           int channel) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const BFloat16* projected = As<BFloat16>(p.projected) + channel;
    for (int row = static_cast<int>(threadIdx.x) / 32; row < count;
         row += kWarps) {
      CopyAsync16(SharedAddress(&raw[row][lane]),
                  projected + static_cast<int64_t>(first + row) *
                                  p.shape.projected_width(),
                  /*valid=*/true);
    }
  }
  __device__ void ReadWeights(ConvWeights& weights) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      weights.Set(c, weight[lane][Place(lane, c)]);
    }
  }
};

// Writes the gates of a row, with a lane for each head.
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

// Stores the results of half a warp for a head.
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

// Reads the raw vectors under the taps. Those of the block's rows, which are
// `count` rows from `first` on, come from shared memory.
__device__ void ReadTaps(const GdnConvParams& p, const TapRows& taps,
                         const HeadRows& rows, int first, int count,
                         int channel, uint4 (&raw)[kConvTaps]) {
  TapRows others = taps;
#pragma unroll
  for (int t = 0; t < kConvTaps; ++t) {
    const bool is_here = taps.at[t] >= first && taps.at[t] < first + count;
    if (is_here) others.at[t] = TapRows::kZero;
  }
  LoadTaps(p, others, channel, raw);
#pragma unroll
  for (int t = 0; t < kConvTaps; ++t) {
    if (others.at[t] == taps.at[t]) continue;
    raw[t] = rows.raw[taps.at[t] - first][threadIdx.x % 32];
  }
}

// Grid: pairs of heads and the gates, groups of rows.
__global__ void __launch_bounds__(kThreads, 3)
    ConvKernel(const __grid_constant__ GdnConvParams p, int rows_per_block) {
  __shared__ HeadRows rows;
  const int num_heads = NumConvHeads(p.shape);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int block_head = static_cast<int>(blockIdx.x) * 2;
  const int head = block_head + static_cast<int>(threadIdx.x % 32) / kHeadLanes;
  const int channel = min(head, num_heads - 1) * kHeadDim +
                      static_cast<int>(threadIdx.x) % kHeadLanes * kVector;
  rows.LoadWeights(p.conv_weight + block_head * kHeadDim * kConvTaps,
                   (num_heads - block_head) * kHeadDim);
  // The topology was written before this forward pass, whose first kernel
  // (Embed) waited for all earlier ones.
  const int first = static_cast<int>(blockIdx.y) * rows_per_block;
  const int count = min(rows_per_block, __ldcg(p.batch.rows.count) - first);
  // A lane has the taps of one of the warp's rows.
  const int own = warp + static_cast<int>(threadIdx.x % 32) * kWarps;
  TapRows own_taps = TapRows::Nowhere();
  if (own < count) own_taps = TapRows::Of(p.batch, first + own);
  WaitForPrevious();
  if (block_head == GatesTask(num_heads)) {
    StartNext();
    for (int row = warp; row < count; row += kWarps) WriteGates(p, first + row);
    return;
  }
  if (count > 0) rows.LoadRows(p, first, count, channel);
  StartNext();
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  ConvWeights weights;
  rows.ReadWeights(weights);
  for (int i = 0; warp + i * kWarps < count; ++i) {
    uint4 raw[kConvTaps];
    ReadTaps(p, own_taps.FromLane(i), rows, first, count, channel, raw);
    StoreHead(p, first + warp + i * kWarps, head, raw[kConvTaps - 1],
              Convolve(weights, raw));
  }
}

// Few rows are spread over the GPU. If there are many, a block has so many that
// they include most taps of a tree.
int RowsPerBlock(int num_rows) {
  return std::clamp((num_rows + kMaxRows - 1) / kMaxRows * kWarps, kWarps,
                    kMaxRows);
}

}  // namespace

absl::Status GdnConv(const GdnConvParams& params, const Launch& on) {
  if (on.type != ElementType::kBFloat16 || !FitsVectorConv(params.shape)) {
    return PlainGdnConv(params, on);
  }
  const int rows_per_block = RowsPerBlock(params.batch.rows.max);
  const dim3 grid(
      GatesTask(NumConvHeads(params.shape)) / 2 + 1,
      (params.batch.rows.max + rows_per_block - 1) / rows_per_block);
  return LaunchDependent("GdnConv", ConvKernel,
                         {.grid = grid, .block = kThreads}, on, params,
                         rows_per_block);
}

}  // namespace bole::cuda
