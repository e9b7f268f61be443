// Runs a linear layer for one token of every request, from its projection to
// the gated norm, in one launch: GdnConv, GdnDecode, GdnCommitWindows and
// GdnGatedNorm, each with its own arithmetic.
//
// A cluster of blocks processes a key head of a request with the value heads
// that read it; a block has a tile of one head's values. Every block convolves
// what it needs, and the outputs of a head are gathered in the shared memory of
// its blocks.
#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_conv.cuh"
#include "kernels/cuda/gdn/gdn_gates.cuh"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kTileRows = 2;  // Rows of a lane.
constexpr int kMaxWarps = 8;
constexpr int kMaxCluster = 8;

#if __CUDA_ARCH__ >= 900

struct Shared {
  float q[kHeadDim];  // Scaled.
  float k[kHeadDim];
  float v[kHeadDim];
  float o[kHeadDim];  // The whole head, as the blocks of its tiles send it.
  uint64_t received;  // Counts the bytes of `o`.
  float norm_weight[kHeadDim];
  float beta;
  float decay;
};

// The part of the work that a block does.
struct Tile {
  int request;
  int key_head;
  int head;
  int index;   // Index among the head's tiles.
  int values;  // Values of a tile.
  int row;
  int slot;
  bool from_zero;
};

// Half a warp's part in the convolution: the queries, the keys or the values.
struct HalfWarp {
  int index = static_cast<int>(threadIdx.x) / kHeadLanes;
  int lane = static_cast<int>(threadIdx.x) % kHeadLanes;

  __device__ bool convolves() const { return index < 3; }
  __device__ bool finds_gates() const { return index == 3 && lane == 0; }
  // The first of the lane's channels.
  __device__ int Channel(const GdnShape& s, const Tile& tile) const {
    const int head = index == 0   ? tile.key_head
                     : index == 1 ? s.key_heads + tile.key_head
                                  : 2 * s.key_heads + tile.head;
    return head * kHeadDim + lane * kVector;
  }
};

// Loads the rows of the window that precede the row itself.
__device__ void LoadOwnWindow(const GdnConvParams& p, const Tile& tile,
                              int channel, uint4 (&raw)[kConvTaps]) {
  const BFloat16* window =
      SlotWindow<BFloat16>(p.shape, p.states, tile.slot, p.layer);
#pragma unroll
  for (int t = 0; t < kConvTaps - 1; ++t) {
    raw[t] =
        tile.from_zero
            ? make_uint4(0, 0, 0, 0)
            : LoadVector(window +
                         static_cast<int64_t>(t + 1) * p.shape.conv_width() +
                         channel);
  }
}

// Writes the scaled keys and queries, and the values, to shared memory. Called
// by the first two warps.
__device__ void ConvolveHead(const HalfWarp& half, const ConvWeights& weights,
                             const uint4 (&raw)[kConvTaps], Shared& shared) {
  const uint4 vector = Convolve(weights, raw);
  float scale = InverseNormOfHead(vector);
  if (half.index == 0) scale *= 1.0f / sqrtf(static_cast<float>(kHeadDim));
  if (half.index == 2) scale = 1;
  if (!half.convolves()) return;
  float x[kVector];
  Unpack(vector, x);
  float* to = half.index == 0   ? shared.q
              : half.index == 1 ? shared.k
                                : shared.v;
#pragma unroll
  for (int c = 0; c < kVector; ++c) {
    to[half.lane * kVector + c] = __fmul_rn(x[c], scale);
  }
}

// Weights of a head's gates.
struct GateWeights {
  float negative_exp_a;
  float dt_bias;
};

__device__ void LoadGates(const GdnConvParams& p, const Tile& tile,
                          const GateWeights& weights, Shared& shared) {
  const BFloat16* projected =
      As<BFloat16>(p.projected) +
      static_cast<int64_t>(tile.row) * p.shape.projected_width();
  const float b = ToFloat(projected[p.shape.b_column() + tile.head]);
  const float a = ToFloat(projected[p.shape.a_column() + tile.head]);
  shared.beta = Sigmoid(b);
  shared.decay = expf(LogDecay(a, weights.negative_exp_a, weights.dt_bias));
}

__device__ uint4 LoadOwnRow(const GdnConvParams& p, const Tile& tile,
                            int channel) {
  return LoadVector(As<BFloat16>(p.projected) +
                    static_cast<int64_t>(tile.row) * p.shape.projected_width() +
                    channel);
}

// Shifts the row into the lane's channels of the window.
__device__ void ShiftOwnWindow(const GdnConvParams& p, const Tile& tile,
                               int channel, const uint4 (&raw)[kConvTaps]) {
  BFloat16* window =
      SlotWindow<BFloat16>(p.shape, p.states, tile.slot, p.layer);
#pragma unroll
  for (int t = 0; t < kConvTaps; ++t) {
    StoreVector(
        window + static_cast<int64_t>(t) * p.shape.conv_width() + channel,
        raw[t]);
  }
}

// Advances the tile and sends its outputs, rounded as they would be stored, to
// all blocks of the head.
__device__ void AdvanceTile(StateRows<kTileRows>& state, const Tile& tile,
                            int tiles, Shared& shared) {
  KeyElements k;
  KeyElements q;
  LoadElements(shared.k, k);
  LoadElements(shared.q, q);
  const int first_rank =
      static_cast<int>(blockIdx.x) - tile.index;  // The head's first block.
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
    const int value = state.row(r);
    AdvanceRow(state.value[r], k, shared.decay, shared.beta, shared.v[value]);
    const float o = DotOfRow(state.value[r], q);
    const int to = static_cast<int>(threadIdx.x % kRowLanes);
    if (to < tiles) {
      SendAsync(&shared.o[value], ToFloat(FromFloat<BFloat16>(o)),
                &shared.received, first_rank + to);
    }
  }
}

// Applies the gated norm to the tile. Called by the first warp; z is the lane's
// vector of the gate.
__device__ void NormTile(const GdnGatedNormParams& p, const Tile& tile,
                         const uint4& z, const Shared& shared) {
  WaitBarrier(AddressOf(&shared.received), 0);
  const int lane = static_cast<int>(threadIdx.x) % kHeadLanes;
  float o[kVector];
  float weight[kVector];
  float gate[kVector];
#pragma unroll
  for (int c = 0; c < kVector; ++c) {
    o[c] = shared.o[lane * kVector + c];
    weight[c] = shared.norm_weight[lane * kVector + c];
  }
  Unpack(z, gate);
  const float scale = RmsScaleOfHead(o, p.epsilon);
  const int value = lane * kVector - tile.index * tile.values;
  if (threadIdx.x >= kHeadLanes || value < 0 || value >= tile.values) return;
  const int64_t at =
      static_cast<int64_t>(tile.row) * p.shape.value_heads + tile.head;
  StoreVector(As<BFloat16>(p.out) + at * kHeadDim + lane * kVector,
              GateNormed(o, scale, weight, gate));
}

__device__ uint4 LoadGateVector(const GdnGatedNormParams& p, const Tile& tile) {
  return LoadVector(As<BFloat16>(p.projected) +
                    static_cast<int64_t>(tile.row) * p.shape.projected_width() +
                    p.shape.z_column() + tile.head * kHeadDim +
                    static_cast<int>(threadIdx.x) % kHeadLanes * kVector);
}

// What a block loads while the projection still runs: weights, and data written
// before this forward pass. The pass's first kernel (Embed) waits before it
// lets others start, so they need not wait for this data.
struct Loaded {
  ConvWeights weights;       // For a lane that convolves.
  GateWeights gate_weights;  // For the lane that finds the gates.
  StateRows<kTileRows> state;
  uint4 raw[kConvTaps];  // The window; the row itself comes last.
};

// Does everything that depends on the projection.
__device__ void DecodeTile(const GdnDecodeLayerParams& p, const Tile& tile,
                           int tiles, Loaded& loaded, Shared& shared) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const HalfWarp half;
  const int channel = half.Channel(p.conv.shape, tile);
  uint4 z = make_uint4(0, 0, 0, 0);
  if (warp == 0) z = LoadGateVector(p.norm, tile);
  if (half.convolves()) {
    loaded.raw[kConvTaps - 1] = LoadOwnRow(p.conv, tile, channel);
  } else if (half.finds_gates()) {
    LoadGates(p.conv, tile, loaded.gate_weights, shared);
  }
  if (warp < 2) ConvolveHead(half, loaded.weights, loaded.raw, shared);
  __syncthreads();
  AdvanceTile(loaded.state, tile, tiles, shared);
  ArriveAtCluster();
  loaded.state.Store(HeadState(p.core.shape, p.core.states, tile.slot,
                               p.core.layer, tile.head));
  if (warp == 0) {
    NormTile(p.norm, tile, z, shared);
  }
  WaitForCluster();  // All blocks have read the window.
  const bool owns_keys = blockIdx.x == 0;
  if (half.convolves() && tile.index == 0 && (half.index == 2 || owns_keys)) {
    ShiftOwnWindow(p.conv, tile, channel, loaded.raw);
  }
}

__device__ void LoadMemory(const GdnDecodeLayerParams& p, const Tile& tile,
                           Loaded& loaded) {
  if (tile.from_zero) {
    loaded.state.Clear();
  } else {
    loaded.state.Load(HeadState(p.core.shape, p.core.states, tile.slot,
                                p.core.layer, tile.head));
  }
  const HalfWarp half;
  if (half.convolves()) {
    LoadOwnWindow(p.conv, tile, half.Channel(p.conv.shape, tile), loaded.raw);
  }
}

#endif

// Grid: tiles of the key head's values, key heads, requests.
__global__ void __launch_bounds__(32 * kMaxWarps, 2)
    DecodeLayerKernel(const __grid_constant__ GdnDecodeLayerParams p,
                      int tiles) {
#if __CUDA_ARCH__ >= 900
  __shared__ Shared shared;
  // This lets the next product fill its ring while the projection runs. Once
  // that has ended, the product's loads would delay the end of this kernel.
  StartNext();
  const GdnShape& s = p.conv.shape;
  Tile tile = {
      .request = static_cast<int>(blockIdx.z),
      .key_head = static_cast<int>(blockIdx.y),
      .head = static_cast<int>(blockIdx.y * (s.value_heads / s.key_heads) +
                               blockIdx.x / tiles),
      .index = static_cast<int>(blockIdx.x) % tiles,
      .values = kHeadDim / tiles,
      .row = 0,
      .slot = 0,
      .from_zero = false};
  if (threadIdx.x == 0) {
    InitBarrier(AddressOf(&shared.received), 1);
    FenceBarrierInit();
  }
  ReleaseToCluster();
  const HalfWarp half;
  Loaded loaded = {
      .weights = {},
      .gate_weights = {},
      .state = StateRows<kTileRows>(
          tile.index * tile.values + static_cast<int>(threadIdx.x / 32) *
                                         StateRows<kTileRows>::kPerWarp,
          kHeadDim),
      .raw = {}};
  if (half.convolves()) {
    loaded.weights.Load(p.conv.conv_weight, half.Channel(s, tile));
  } else if (half.finds_gates()) {
    loaded.gate_weights = {p.conv.negative_exp_a[tile.head],
                           p.conv.dt_bias[tile.head]};
  }
  if (threadIdx.x < kHeadDim) {
    shared.norm_weight[threadIdx.x] = p.norm.weight[threadIdx.x];
  }
  const RowBatch& batch = p.conv.batch;
  tile.row = batch.first_row[tile.request];
  tile.slot = batch.slot[tile.request];
  tile.from_zero = batch.committed[tile.request] == 0;
  if (tile.row == batch.first_row[tile.request + 1]) {
    WaitForCluster();
    WaitForPrevious();
    return;
  }
  LoadMemory(p, tile, loaded);
  WaitForCluster();  // All blocks have started; their memory exists.
  if (threadIdx.x == 0) {
    ArriveExpecting(AddressOf(&shared.received), sizeof(shared.o));
  }
  WaitForPrevious();
  DecodeTile(p, tile, tiles, loaded, shared);
#endif
}

// Returns as many tiles of a head as give the GPU enough blocks.
int TilesOfHead(int group) { return group <= 2 ? 4 : 2; }

absl::Status LaunchDecodeLayer(const GdnDecodeLayerParams& params,
                               const Launch& on) {
  const GdnShape& s = params.conv.shape;
  const int group = s.value_heads / s.key_heads;
  const int tiles = TilesOfHead(group);
  const unsigned cluster = group * tiles;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = cluster;
  attributes[0].val.clusterDim.y = 1;
  attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(cluster, s.key_heads, params.conv.batch.max_requests);
  config.blockDim =
      dim3(32 * kHeadDim / tiles / StateRows<kTileRows>::kPerWarp);
  config.stream = on.stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  return ToStatus(cudaLaunchKernelEx(&config, DecodeLayerKernel, params, tiles),
                  "GdnDecodeLayer");
}

// Blocks that wait for each other hide no latency. If there are more of them
// than run at a time, they cost more than the launches they save.
bool FitsOneLaunch(const GdnDecodeLayerParams& params, const Launch& on) {
  constexpr int kThreadsAtATime = 132 * 512;
  const GdnShape& s = params.conv.shape;
  const int group = s.value_heads / s.key_heads;
  const int threads = params.conv.batch.max_requests * s.value_heads *
                      kHeadDim / StateRows<kTileRows>::kPerWarp * 32;
  return on.overlaps && on.type == ElementType::kBFloat16 &&
         FitsVectorConv(s) && group * TilesOfHead(group) <= kMaxCluster &&
         threads <= kThreadsAtATime;
}

}  // namespace

absl::Status GdnDecodeLayer(const GdnDecodeLayerParams& params,
                            const Launch& on) {
  if (FitsOneLaunch(params, on)) {
    return LaunchDecodeLayer(params, on);
  }
  const absl::Status conv = GdnConv(params.conv, on);
  if (!conv.ok()) return conv;
  const absl::Status core = GdnDecode(params.core, on);
  if (!core.ok()) return core;
  const absl::Status windows = GdnCommitWindows(params.windows, on);
  if (!windows.ok()) return windows;
  return GdnGatedNorm(params.norm, on);
}

}  // namespace bole::cuda
