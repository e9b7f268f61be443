// The front of a linear layer where a cluster of blocks verifies what it
// computes: tree convolution, SiLU and scales of a key head and of value heads
// that read it.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_FRONT_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_FRONT_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_conv.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/verify_few.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// The front's part in a block with a tile of kTileColumns columns: all of its
// values, and every `blocks`-th row of the keys and queries for all blocks of
// the cluster. kKeyWarps warps, the first, compute keys and queries, a row at a
// time. Values are not wanted before the state has been multiplied.
template <int kNodes, int kTileColumns, int kKeyWarps>
class TileFront {
 public:
  static constexpr int kValueVectors = kTileColumns / kVector;  // Of a row.
  // Nodes whose values a warp computes at a time.
  static constexpr int kValueRows = 32 / kValueVectors;

  // Brings the weights on their way, by kThreads threads; and what does not
  // depend on the tile.
  template <int kThreads>
  __device__ void LoadWeights(const GdnConvParams& p, const LayerTile& tile) {
#pragma unroll
    for (int i = threadIdx.x; i < kVectors * kVector; i += kThreads) {
      const int vector = i / kVector;
      const int c = i % kVector;
      const int channel = Channel(p.shape, tile, vector) + c;
      CopyAsync16(SharedAddress(&weight_[vector][Place(vector, c)]),
                  p.conv_weight + channel * kConvTaps, /*valid=*/true);
    }
    if (threadIdx.x < kValueVectors) {
      row_[kZeroRow][threadIdx.x] = make_uint4(0, 0, 0, 0);
    }
  }

  // Finds where the raw values under a node's taps are, by its thread.
  template <int kWords>
  __device__ void FindTaps(const GdnConvParams& p, const LayerTile& tile,
                           const NodeGates<kWords>& gates) {
    static_assert(kWords <= 2);
    const BFloat16* at[kConvTaps] = {};  // Null: nothing, and so zero.
    uint32_t rows = kZeroRow * 0x01010101u;
    if (gates.valid) {
      const BFloat16* projected = As<BFloat16>(p.projected);
      const int64_t width = p.shape.projected_width();
      const BFloat16* window =
          SlotWindow<BFloat16>(p.shape, p.states, tile.slot, p.layer);
      at[kConvTaps - 1] = projected + (tile.first + gates.node) * width;
      rows = gates.node << 24;
      uint64_t ancestors = 0;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        ancestors |= static_cast<uint64_t>(gates.mask[w]) << 32 * w;
      }
      ancestors ^= uint64_t{1} << gates.node;
      int window_row = kConvTaps;
#pragma unroll
      for (int t = kConvTaps - 2; t >= 0; --t) {
        int row = kZeroRow;
        if (ancestors != 0) {  // The nearest of them.
          row = 63 - __clzll(static_cast<int64_t>(ancestors));
          ancestors ^= uint64_t{1} << row;
          at[t] = projected + (tile.first + row) * width;
        } else if (!tile.from_zero) {
          --window_row;
          row = kWindowRow + window_row;
          at[t] = window + window_row * p.shape.conv_width();
        }
        rows |= static_cast<uint32_t>(row) << 8 * t;
      }
    }
#pragma unroll
    for (int t = 0; t < kConvTaps; ++t) tap_[gates.node][t] = at[t];
    tap_rows_[gates.node] = rows;
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

  // The bytes that a block gets from RunKeys() of all blocks, itself included.
  __device__ static int BytesOfKeys(int padded) {
    constexpr int kBytes = kHeadLanes * sizeof(uint4) + sizeof(float);
    return padded * 2 * kBytes;
  }

  // The weights and taps are there, and all blocks have started. By the warps
  // of keys: writes the block's keys to the factors in memory, and sends them,
  // the queries and both's scales to `shared` of all blocks, where they count
  // at `barrier`; cleared from the tree's count up to `padded`.
  template <typename Shared>
  __device__ void RunKeys(const GdnConvParams& p, const LayerTile& tile,
                          int padded, Shared& shared,
                          const uint64_t& barrier) const {
    const int vector = static_cast<int>(threadIdx.x % 32);
    const int channel = Channel(p.shape, tile, vector);
#pragma unroll 1
    for (int node =
             tile.rank + static_cast<int>(threadIdx.x / 32) * tile.blocks;
         node < padded; node += kKeyWarps * tile.blocks) {
      uint4 raw[kConvTaps];
#pragma unroll
      for (int t = 0; t < kConvTaps; ++t) {
        const BFloat16* at = tap_[node][t];
        __builtin_assume(__isGlobal(at));
        raw[t] = make_uint4(0, 0, 0, 0);
        if (at != nullptr) raw[t] = LoadVector(at + channel);
      }
      const uint4 value = Convolve(WeightsOf(vector), raw);
      const bool is_used = node < tile.count;
      const float scale = is_used ? InverseNormOfHead(value) : 0;
      SendKey(tile, node, vector, value, scale, shared, barrier);
      if (is_used && tile.owns_keys) {
        StoreKey(p, tile, node, vector, channel, value, scale,
                 raw[kConvTaps - 1]);
      }
    }
  }

  // By kThreads threads, of which this is the `thread`-th: brings the rows
  // under the taps of values on their way.
  template <int kThreads>
  __device__ void LoadRows(const GdnConvParams& p, const LayerTile& tile,
                           int thread) {
    static_assert(kThreads % kValueVectors == 0);
    const int vector = thread % kValueVectors;
    const int channel = Channel(p.shape, tile, 2 * kHeadLanes + vector);
    const int64_t width = p.shape.projected_width();
    const BFloat16* at = As<BFloat16>(p.projected) + channel +
                         (tile.first + thread / kValueVectors) * width;
    for (int row = thread / kValueVectors; row < tile.count;
         row += kThreads / kValueVectors) {
      CopyAsync16(SharedAddress(&row_[row][vector]), at, /*valid=*/true);
      at += kThreads / kValueVectors * width;
    }
    const int t = thread / kValueVectors + 1;
    if (t < kConvTaps && !tile.from_zero) {
      CopyAsync16(SharedAddress(&row_[kWindowRow + t][vector]),
                  SlotWindow<BFloat16>(p.shape, p.states, tile.slot, p.layer) +
                      static_cast<int64_t>(t) * p.shape.conv_width() + channel,
                  /*valid=*/true);
    }
  }
  // The weights, taps and rows are there. By a warp: writes the values of every
  // step-th of the groups of nodes that a warp has at a time, from first up to
  // end, to the factors and to `shared`.
  template <typename Shared>
  __device__ void RunValues(const GdnConvParams& p, const LayerTile& tile,
                            int first, int end, int step,
                            Shared& shared) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int vector = lane % kValueVectors;
    const int channel = Channel(p.shape, tile, 2 * kHeadLanes + vector);
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    BFloat16* const raw_to = factors.raw(tile.first) + channel;
    BFloat16* const v_to =
        factors.v(tile.first, 0) + channel - 2 * p.shape.key_width();
#pragma unroll 1
    for (int group = first; group < end; group += step) {
      const int node = group * kValueRows + lane / kValueVectors;
      const uint32_t rows = tap_rows_[node];
      uint4 raw[kConvTaps];
#pragma unroll
      for (int t = 0; t < kConvTaps; ++t) {
        raw[t] = row_[rows >> 8 * t & 0xff][vector];
      }
      const uint4 value = Convolve(WeightsOf(2 * kHeadLanes + vector), raw);
      *shared.values.At(node, vector) = value;
      if (node < tile.count) {
        StoreVector(raw_to + node * p.shape.conv_width(), raw[kConvTaps - 1]);
        StoreVector(v_to + node * p.shape.value_width(), value);
      }
    }
  }

 private:
  // Of queries, keys and values.
  static constexpr int kVectors = 2 * kHeadLanes + kValueVectors;
  // Raw rows of values: of the nodes, of the window, and one of zeros.
  static constexpr int kWindowRow = kNodes;
  static constexpr int kZeroRow = kWindowRow + kConvTaps;

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

  __device__ ConvWeights WeightsOf(int vector) const {
    ConvWeights weights;
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      weights.Set(c, weight_[vector][Place(vector, c)]);
    }
    return weights;
  }

  // A vector of a key, or of a query, to all blocks.
  template <typename Shared>
  __device__ static void SendKey(const LayerTile& tile, int node, int vector,
                                 const uint4& value, float scale,
                                 Shared& shared, const uint64_t& barrier) {
    const int lane = vector % kHeadLanes;
    const bool is_key = vector >= kHeadLanes;
    auto& rows = is_key ? shared.keys : shared.queries;
    const uint4* const to =
        &rows.chunk[lane / 8][node][rows.Swizzled(node, lane % 8)];
    // Blocks begin with different ones.
    for (int n = 0; n < tile.blocks; ++n) {
      const int block = tile.rank + n;
      SendAsync(to, value, &barrier,
                block < tile.blocks ? block : block - tile.blocks);
    }
    if (lane >= tile.blocks) return;
    if (!is_key) scale *= 1.0f / sqrtf(static_cast<float>(kHeadDim));
    SendAsync(
        is_key ? &shared.gates.k_scale[node] : &shared.gates.q_scale[node],
        scale, &barrier, lane);
  }

  // A vector of a row of queries and keys to the factors.
  __device__ static void StoreKey(const GdnConvParams& p, const LayerTile& tile,
                                  int node, int vector, int channel,
                                  const uint4& value, float scale,
                                  const uint4& raw) {
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    const int row = tile.first + node;
    StoreVector(factors.raw(row) + channel, raw);
    if (vector < kHeadLanes) return;
    StoreVector(factors.k(row, 0) + channel - p.shape.key_width(), value);
    if (vector == kHeadLanes) {
      factors.k_scale(row, tile.key_head) = scale;
    }
  }

  const BFloat16* tap_[kNodes][kConvTaps];  // Rows, oldest first.
  uint32_t tap_rows_[kNodes];  // The same as rows of row_, a byte each.
  uint4 row_[kZeroRow + 1][kValueVectors];
  float4 weight_[kVectors][kVector];  // Permuted by Place().
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_FRONT_CUH_
