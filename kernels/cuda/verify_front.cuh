// The front of a linear layer where a cluster of blocks verifies what it
// computes: tree convolution, SiLU and scales of a key head and of value heads
// that read it.
#ifndef BOLE_KERNELS_CUDA_VERIFY_FRONT_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_FRONT_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_conv.cuh"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify_tile.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// The front's part in a block with a tile of kTileColumns columns: all of its
// values, and every `blocks`-th row of the keys and queries for all blocks of
// the cluster.
template <int kNodes, int kTileColumns, int kThreads>
class TileFront {
 public:
  static constexpr int kValueVectors = kTileColumns / kVector;  // Of a row.

  // Brings the weights on their way, with all threads; one group of copies.
  __device__ void LoadWeights(const GdnConvParams& p, const LayerTile& tile) {
    for (int i = threadIdx.x; i < kVectors * kVector; i += kThreads) {
      const int vector = i / kVector;
      const int c = i % kVector;
      const int channel = Channel(p.shape, tile, vector) + c;
      CopyAsync16(SharedAddress(&weight_[vector][Place(vector, c)]),
                  p.conv_weight + channel * kConvTaps, /*valid=*/true);
    }
    CommitCopies();
  }

  // Finds where the raw values under a node's taps are, by its thread.
  __device__ void FindTaps(const RowBatch& batch, const LayerTile& tile,
                           int node) {
    TapRows taps = TapRows::Nowhere();
    if (node < tile.count) {
      const int row = tile.first + node;
      taps = TapRows::Under(row, node, Ancestors(batch, row, node), tile.slot,
                            tile.from_zero);
    }
    tap_[node] = make_int4(taps.at[0], taps.at[1], taps.at[2], taps.at[3]);
  }

  // The weights and taps are there, and all blocks have started. Writes the
  // factors to memory; to `shared` of all blocks the keys, queries and their
  // scales, to this one's the values; cleared from the tree's count up to
  // `padded`.
  template <typename Shared>
  __device__ void Run(const GdnConvParams& p, const LayerTile& tile, int padded,
                      Shared& shared) const {
    constexpr int kWarps = kThreads / 32;
    const int key_rows = (padded - tile.rank + tile.blocks - 1) / tile.blocks;
    int number = static_cast<int>(threadIdx.x) / 32;
    Task task = {-1, 0};
    uint4 raw[kConvTaps] = {};
#pragma unroll 1
    while (true) {
      // The next task's vectors are on their way while this one is computed.
      const Task next = Task::Of(tile, key_rows, number);
      uint4 next_raw[kConvTaps];
      if (next.node < padded) Load(p, tile, next, next_raw);
      if (task.node >= 0) Compute(p, tile, task, raw, shared);
      if (next.node >= padded) break;
      task = next;
#pragma unroll
      for (int t = 0; t < kConvTaps; ++t) raw[t] = next_raw[t];
      number += kWarps;
    }
  }

  // Asks for the window's rows that the tile reads.
  __device__ void PrefetchWindow(const GdnConvParams& p,
                                 const LayerTile& tile) const {
    const int t = static_cast<int>(threadIdx.x) / 32 + 1;
    const int vector = static_cast<int>(threadIdx.x) % 32 * 2;
    if (tile.from_zero || t >= kConvTaps || vector >= kVectors) return;
    const BFloat16* window =
        SlotWindow<BFloat16>(p.shape, p.states, tile.slot, p.layer) +
        static_cast<int64_t>(t) * p.shape.conv_width() +
        Channel(p.shape, tile, vector);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(window));
  }

 private:
  // Of queries, keys and values.
  static constexpr int kVectors = 2 * kHeadLanes + kValueVectors;

  __device__ static int Place(int vector, int c) {
    return c ^ vector % kVector;
  }

  // The first channel of a vector.
  __device__ static int Channel(const GdnShape& s, const LayerTile& tile,
                                int vector) {
    const int within = vector % kHeadLanes * kVector;
    if (vector < kHeadLanes) return tile.key_head * kHeadDim + within;
    if (vector < 2 * kHeadLanes) {
      return s.key_width() + tile.key_head * kHeadDim + within;
    }
    return 2 * s.key_width() + tile.head * kHeadDim + tile.column +
           (vector - 2 * kHeadLanes) * kVector;
  }

  // What a thread computes at a time: a vector of a node. Warps have first the
  // cluster's rows of queries and keys, then those of values.
  struct Task {
    int node;
    int vector;

    __device__ static Task Of(const LayerTile& tile, int key_rows, int number) {
      constexpr int kRows = 32 / kValueVectors;  // Of values, of a warp.
      const int lane = static_cast<int>(threadIdx.x) % 32;
      if (number < key_rows) {
        return {.node = tile.rank + number * tile.blocks, .vector = lane};
      }
      return {.node = (number - key_rows) * kRows + lane / kValueVectors,
              .vector = 2 * kHeadLanes + lane % kValueVectors};
    }
  };

  __device__ void Load(const GdnConvParams& p, const LayerTile& tile,
                       const Task& task, uint4 (&raw)[kConvTaps]) const {
    const int4 at = tap_[task.node];
    const TapRows taps = {.at = {at.x, at.y, at.z, at.w}, .slot = tile.slot};
    LoadTaps(p, taps, Channel(p.shape, tile, task.vector), raw);
  }

  template <typename Shared>
  __device__ void Compute(const GdnConvParams& p, const LayerTile& tile,
                          const Task& task, const uint4 (&raw)[kConvTaps],
                          Shared& shared) const {
    const int channel = Channel(p.shape, tile, task.vector);
    ConvWeights weights;
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      weights.Set(c, weight_[task.vector][Place(task.vector, c)]);
    }
    // Zero where no row is.
    const uint4 value = Convolve(weights, raw);
    const bool is_used = task.node < tile.count;
    const int row = tile.first + task.node;
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    if (task.vector < 2 * kHeadLanes) {
      const float scale = is_used ? InverseNormOfHead(value) : 0;
      SendKey(tile, task, value, scale, shared);
      if (!is_used || !tile.owns_keys) return;
      StoreVector(factors.raw(row) + channel, raw[kConvTaps - 1]);
      if (task.vector < kHeadLanes) return;
      StoreVector(factors.k(row, 0) + channel - p.shape.key_width(), value);
      if (task.vector == kHeadLanes)
        factors.k_scale(row, tile.key_head) = scale;
    } else {
      *shared.values.At(task.node, task.vector - 2 * kHeadLanes) = value;
      if (!is_used) return;
      StoreVector(factors.raw(row) + channel, raw[kConvTaps - 1]);
      StoreVector(factors.v(row, 0) + channel - 2 * p.shape.key_width(), value);
    }
  }

  // A vector of a key, or of a query, to all blocks.
  template <typename Shared>
  __device__ void SendKey(const LayerTile& tile, const Task& task,
                          const uint4& value, float scale,
                          Shared& shared) const {
    const int node = task.node;
    const int lane = task.vector % kHeadLanes;
    const bool is_key = task.vector >= kHeadLanes;
    auto& rows = is_key ? shared.keys : shared.queries;
    uint4* const to =
        &rows.chunk[lane / 8][node][rows.Swizzled(node, lane % 8)];
    float* const scale_to =
        is_key ? &shared.gates.k_scale[node] : &shared.gates.q_scale[node];
    const float factor = 1.0f / sqrtf(static_cast<float>(kHeadDim));
    if (!is_key) scale *= factor;
    for (int block = 0; block < tile.blocks; ++block) {
      *InBlock(to, block) = value;
      if (lane == 0) *InBlock(scale_to, block) = scale;
    }
  }

  int4 tap_[kNodes];                  // TapRows::at
  float4 weight_[kVectors][kVector];  // Permuted by Place().
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_FRONT_CUH_
