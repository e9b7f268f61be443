// The front of a linear layer, where the cluster of blocks that computes it
// also verifies: tree convolution, SiLU and scales of a key head and of value
// heads that read it.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_FRONT_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_FRONT_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_conv.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// The front's part in a block with a tile of kTileColumns columns: all of its
// values, and every `blocks`-th row of the keys and queries for all blocks of
// the cluster. The first kWorkers warps compute.
template <int kNodes, int kTileColumns, int kThreads, int kWorkers>
class TileFront {
 public:
  static constexpr int kValueVectors = kTileColumns / kVector;  // In a row.

  // Starts the copies of the weights, with all threads, as one group.
  __device__ void LoadWeights(const GdnConvParams& p, const LayerTile& tile) {
#pragma unroll
    for (int i = threadIdx.x; i < kVectors * kVector; i += kThreads) {
      const int vector = i / kVector;
      const int c = i % kVector;
      const int channel = Channel(p.shape, tile, vector) + c;
      CopyAsync16(SharedAddress(&weight_[vector][Place(vector, c)]),
                  p.conv_weight + channel * kConvTaps, /*valid=*/true);
    }
    CommitCopies();
  }

  // Finds the addresses of the raw values under a node's taps. Called by the
  // node's thread.
  template <int kWords>
  __device__ void FindTaps(const GdnConvParams& p, const LayerTile& tile,
                           const NodeGates<kWords>& gates) {
    static_assert(kWords <= 2);
    const BFloat16* at[kConvTaps] = {};  // Null: the value is zero.
    if (gates.valid) {
      const BFloat16* projected = As<BFloat16>(p.projected);
      const int64_t width = p.shape.projected_width();
      const BFloat16* window =
          SlotWindow<BFloat16>(p.shape, p.states, tile.slot, p.layer);
      at[kConvTaps - 1] = projected + (tile.first + gates.node) * width;
      uint64_t ancestors = 0;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        ancestors |= static_cast<uint64_t>(gates.mask[w]) << 32 * w;
      }
      ancestors ^= uint64_t{1} << gates.node;
      int window_row = kConvTaps;
#pragma unroll
      for (int t = kConvTaps - 2; t >= 0; --t) {
        if (ancestors != 0) {  // The nearest of them.
          const int node = 63 - __clzll(static_cast<int64_t>(ancestors));
          ancestors ^= uint64_t{1} << node;
          at[t] = projected + (tile.first + node) * width;
        } else if (!tile.from_zero) {
          --window_row;
          at[t] = window + window_row * p.shape.conv_width();
        }
      }
    }
#pragma unroll
    for (int t = 0; t < kConvTaps; ++t) tap_[gates.node][t] = at[t];
  }

  // The bytes that a block receives from Run() of the other blocks.
  __device__ static int BytesOfKeys(const LayerTile& tile, int padded) {
    constexpr int kBytes = kHeadLanes * sizeof(uint4) + sizeof(float);
    return (padded - NumKeyRows(tile, padded)) * 2 * kBytes;
  }

  // The weights and taps must have arrived, and all blocks must have started.
  // Writes the factors to memory, the keys, queries and their scales to
  // `shared` of all blocks, where they count at `barrier`, and the values to
  // `shared` of this block. Rows from the tree's count up to `padded` are
  // cleared.
  template <typename Shared>
  __device__ void Run(const GdnConvParams& p, const LayerTile& tile, int padded,
                      Shared& shared, const uint64_t& barrier) const {
    const int key_rows = NumKeyRows(tile, padded);
    int number = static_cast<int>(threadIdx.x) / 32;
    Task task = {-1, 0};
    uint4 raw[kConvTaps] = {};
#pragma unroll 1
    while (true) {
      // Load the next task's vectors while this one is computed.
      const Task next = Task::Of(tile, key_rows, number);
      uint4 next_raw[kConvTaps];
      if (next.node < padded) Load(p, tile, next, next_raw);
      if (task.node >= 0) Compute(p, tile, task, raw, shared, barrier);
      if (next.node >= padded) break;
      task = next;
#pragma unroll
      for (int t = 0; t < kConvTaps; ++t) raw[t] = next_raw[t];
      number += kWorkers;
    }
  }

  // Prefetches the window's rows that the tile reads into L2.
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
  // The vectors of a row: queries, keys and values.
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

  // How many rows of keys, and of queries, the block computes.
  __device__ static int NumKeyRows(const LayerTile& tile, int padded) {
    return (padded - tile.rank + tile.blocks - 1) / tile.blocks;
  }

  // What a thread computes at a time: a vector of a node. The warps first take
  // the rows of queries and keys, then those of values.
  struct Task {
    int node;
    int vector;

    __device__ static Task Of(const LayerTile& tile, int key_rows, int number) {
      constexpr int kRows = 32 / kValueVectors;  // Value rows of a warp.
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
    const int channel = Channel(p.shape, tile, task.vector);
#pragma unroll
    for (int t = 0; t < kConvTaps; ++t) {
      const BFloat16* at = tap_[task.node][t];
      __builtin_assume(__isGlobal(at));
      raw[t] = make_uint4(0, 0, 0, 0);
      if (at != nullptr) raw[t] = LoadVector(at + channel);
    }
  }

  template <typename Shared>
  __device__ void Compute(const GdnConvParams& p, const LayerTile& tile,
                          const Task& task, const uint4 (&raw)[kConvTaps],
                          Shared& shared, const uint64_t& barrier) const {
    const int channel = Channel(p.shape, tile, task.vector);
    ConvWeights weights;
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      weights.Set(c, weight_[task.vector][Place(task.vector, c)]);
    }
    // The result is zero where there is no row.
    const uint4 value = Convolve(weights, raw);
    const bool is_used = task.node < tile.count;
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    BFloat16* const raw_to =
        factors.raw(tile.first) + channel + task.node * p.shape.conv_width();
    if (task.vector < 2 * kHeadLanes) {
      const float scale = is_used ? InverseNormOfHead(value) : 0;
      SendKey(tile, task, value, scale, shared, barrier);
      if (!is_used || !tile.owns_keys) return;
      StoreVector(raw_to, raw[kConvTaps - 1]);
      if (task.vector < kHeadLanes) return;
      const int width = p.shape.key_width();
      StoreVector(
          factors.k(tile.first, 0) + channel - width + task.node * width,
          value);
      if (task.vector == kHeadLanes) {
        factors.k_scale(tile.first + task.node, tile.key_head) = scale;
      }
    } else {
      *shared.values.At(task.node, task.vector - 2 * kHeadLanes) = value;
      if (!is_used) return;
      StoreVector(raw_to, raw[kConvTaps - 1]);
      StoreVector(factors.v(tile.first, 0) + channel - 2 * p.shape.key_width() +
                      task.node * p.shape.value_width(),
                  value);
    }
  }

  // Sends a vector of a key, or of a query, to all blocks.
  template <typename Shared>
  __device__ void SendKey(const LayerTile& tile, const Task& task,
                          const uint4& value, float scale, Shared& shared,
                          const uint64_t& barrier) const {
    const int node = task.node;
    const int lane = task.vector % kHeadLanes;
    const bool is_key = task.vector >= kHeadLanes;
    auto& rows = is_key ? shared.keys : shared.queries;
    uint4* const to =
        &rows.chunk[lane / 8][node][rows.Swizzled(node, lane % 8)];
    float* const scale_to =
        is_key ? &shared.gates.k_scale[node] : &shared.gates.q_scale[node];
    if (!is_key) scale *= 1.0f / sqrtf(static_cast<float>(kHeadDim));
    *to = value;
    if (lane == tile.rank) {
      *scale_to = scale;
    } else if (lane < tile.blocks) {
      SendAsync(scale_to, scale, &barrier, lane);
    }
    // Each block begins with a different receiver.
    for (int n = 1; n < tile.blocks; ++n) {
      const int block = tile.rank + n;
      SendAsync(to, value, &barrier,
                block < tile.blocks ? block : block - tile.blocks);
    }
  }

  const BFloat16* tap_[kNodes][kConvTaps];  // Rows, oldest first.
  float4 weight_[kVectors][kVector];        // Permuted by Place().
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_FRONT_CUH_
