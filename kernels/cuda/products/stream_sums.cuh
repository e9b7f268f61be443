// What becomes of the sums of a product of few rows (stream_product.cu): they
// are added up over the warpgroups and blocks that have divided the columns,
// scaled by the norm before the product, gated, and written for the norm after
// it.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_STREAM_SUMS_CUH_
#define BOLE_KERNELS_CUDA_PRODUCTS_STREAM_SUMS_CUH_

#include <cstdint>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/products/stream_product.h"
#include "kernels/cuda/products/stream_ring.cuh"

namespace bole::cuda {

// Rows of a tile whose sums a warp has.
inline constexpr int kWarpRows = 16;

// How many sums of squares are left for a tile's part of a row of out.
__host__ __device__ inline int PartsOfTile(const StreamPlan& plan) {
  return (plan.tile_rows + kWarpRows - 1) / kWarpRows;
}

// What a block has in shared memory before its ring.
template <int kN>
struct StreamFront {
  static constexpr int kAlignment = 1024;  // The ring's alignment.

  uint64_t ring[kBarrierBytes / sizeof(uint64_t)];
  uint64_t scales_written;  // Every lane of the warp that finds them arrives.
  uint64_t ups_written;     // Every consumer arrives once a tile.
  uint64_t sums_received;   // Expects the bytes of `received`.
  float scale[kN];
  union {
    // The ups of two tiles: those of tile t in slot t % 2.
    float up[2][kMaxTileRows / 2][kN];
    // Sums from the cluster's other block: half of those that it has.
    float4 received[kN / 8 * kConsumers / 2];
  };

  __host__ __device__ static int Bytes(const StreamTask& t) {
    int bytes = sizeof(StreamFront);
    if (!t.gated) bytes -= sizeof(up);
    if (t.plan.cluster > 1) bytes += sizeof(received);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void SyncConsumers() { SyncThreads(1, kConsumers); }

// Finishes the norm before the product: one warp computes the scales of all
// rows that there is room for.
template <int kRows>
__device__ void FindScales(const StreamTask& t,
                           StreamFront<kProductRows<kRows>>& front) {
  const DividedNorm& norm = t.norm;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum[kRows] = {};
#pragma unroll 2
  for (int i = lane; i < norm.parts; i += 32) {
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      if (n < t.num_rows) sum[n] += norm.squares[n * norm.parts + i];
    }
  }
#pragma unroll
  for (int n = 0; n < kRows; ++n) {
    const float squares = WarpSum(sum[n]);
    if (lane == n) {
      front.scale[n] =
          norm.parts == 0
              ? 1.0f
              : rsqrtf(squares / static_cast<float>(norm.width) + norm.epsilon);
    }
  }
  Arrive(AddressOf(&front.scales_written));
}

// Used by the threads that multiply. D is what wgmma.cuh calls d; a thread's
// elements are those of "owner" number threadIdx.x.
template <int kRows, int kBoxes, Side kSide>
struct StreamSums {
  static constexpr int kN = kProductRows<kRows>;
  static constexpr int kBlocks = kN / 8;  // Blocks of D's columns.
  // How many of the two neighbouring columns that an owner has of each row and
  // block are used.
  static constexpr int kColumns = kRows < 2 ? 1 : 2;
  // Whether the warpgroups divide the columns, and not the rows.
  static constexpr bool kHalves = kBoxes == 2;
  static constexpr int kOwners = kHalves ? kConsumers / 2 : kConsumers;
  static constexpr int kRowsApart = 8;  // Between the two rows of an owner.

  const StreamTask& t;
  const Share& share;
  float4* sums;  // [kBlocks, kConsumers / 2], where the ring was.
  StreamFront<kN>& front;
  int count = 0;  // Rows of x in use.
  // What the sums of this thread are added to, and the weights of the next
  // norm. Both are read early, because nothing hides the wait for them at the
  // end.
  float4 first_old = {};
  float2 first_weight = {};

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ bool is_shared() const { return t.plan.cluster > 1; }
  __device__ static int FirstRowOf(int owner) {
    return owner / 32 * kWarpRows + owner % 32 / 4;
  }
  __device__ static float4 BlockOf(const float (&d)[kN / 2], int j) {
    return make_float4(d[4 * j], d[4 * j + 1], d[4 * j + 2], d[4 * j + 3]);
  }

  // Each block of a cluster adds up half of the sums, those of
  //   owner + kOwners * (block of D's columns) = kShare * rank + i, i < kShare,
  // from all warpgroups that have a part of them.
  static constexpr int kShare = kBlocks * kOwners / 2;
  static constexpr int kParts = kHalves ? 2 : 1;  // Parts of a sum in a block.
  static constexpr int kSentBytes = kParts * kShare * sizeof(float4);
  // Whether the values that the sums are added to are read early: by threads
  // that add up one block of D, and have registers for them.
  static constexpr bool kReadsEarly = kN < kMaxStreamRows;
  static_assert(kSide != Side::kAhead || kReadsEarly);
  static_assert(!kReadsEarly || kShare <= kConsumers);

  // Reads, before the previous kernels have ended, the weights and, on either
  // side of a norm, the count: they were written before the forward pass.
  __device__ void ReadOld() {
    if constexpr (kSide != Side::kNone) {
      count = min(__ldcg(t.count), t.num_rows);
    }
    if (kSide == Side::kAhead && thread() < kShare) {
      first_weight = WeightsOf((kShare * share.rank + thread()) % kOwners);
    }
  }
  // Reads the rest when the previous kernels have ended.
  __device__ void ReadEarly() {
    if constexpr (kSide == Side::kNone) count = min(*t.count, t.num_rows);
    if (kReadsEarly && is_shared() && thread() < kShare) {
      const int at = kShare * share.rank + thread();
      first_old = Old(share.FirstOutput(t, 0), at % kOwners, at / kOwners);
    }
  }

  // Writes a tile's sums, or gives them to the blocks that add them up.
  __device__ void Take(int tile, const float (&d)[kN / 2]) const {
    if (is_shared()) {
      Give(d);
      return;
    }
    if constexpr (kSide == Side::kBehind) {
      if (tile == 0) WaitForScales();
      if (t.gated) {
        WriteGated(tile, d);
        return;
      }
    }
    const int first = share.FirstOutput(t, tile);
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      WriteBlock(first, thread(), j, BlockOf(d, j), Old(first, thread(), j));
    }
  }

  // Adds up and writes what the cluster's warpgroups have given, in the order
  // of blocks, then of warpgroups.
  __device__ void AddUp() const {
    SyncConsumers();
    WaitBarrier(AddressOf(&front.sums_received), 0);
    if constexpr (kSide == Side::kBehind) WaitForScales();
    const int first = share.FirstOutput(t, 0);
    for (int i = thread(); i < kShare; i += kConsumers) {
      const int owner = (kShare * share.rank + i) % kOwners;
      const int j = (kShare * share.rank + i) / kOwners;
      float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int from = 0; from < 2 * kParts; ++from) {
        const float4* given =
            from / kParts == share.rank ? sums : front.received;
        const float4 d = given[from % kParts * kShare + i];
        sum.x += d.x;
        sum.y += d.y;
        sum.z += d.z;
        sum.w += d.w;
      }
      const float4 old = kReadsEarly ? first_old : Old(first, owner, j);
      if constexpr (kSide == Side::kAhead) {
        WriteForNorm(owner, j, sum, old, first_weight);
      } else {
        WriteBlock(first, owner, j, sum, old);
      }
    }
  }

 private:
  __device__ void WaitForScales() const {
    WaitBarrier(AddressOf(&front.scales_written), 0);
  }

  __device__ void Give(const float (&d)[kN / 2]) const {
    SyncConsumers();  // The ring has been read.
    const uint32_t received = AddressInBlock(front.received, 1 - share.rank);
    const uint32_t barrier =
        AddressInBlock(&front.sums_received, 1 - share.rank);
    const int owner = thread() % kOwners;
    const int part = thread() / kOwners;
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      // owner + kOwners * j, as a quotient and a remainder.
      const int rank = kBlocks > 1 ? 2 * j / kBlocks : owner / kShare;
      const int to = part * kShare + owner + kOwners * j - kShare * rank;
      if (rank == share.rank) {
        sums[to] = BlockOf(d, j);
      } else {
        const float4 x = BlockOf(d, j);
        SendAsync(received + to * sizeof(float4),
                  reinterpret_cast<const uint4&>(x), barrier);
      }
    }
  }

  // Calls f(n, place in out, element of D) for the owner's elements in column
  // block j of D that are in use, in the tile that begins at column `first`.
  template <typename F>
  __device__ void ForEach(int first, int owner, int j, const F& f) const {
    const int n = 8 * j + 2 * (owner % 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = FirstRowOf(owner) + kRowsApart * half;
      if (row >= t.plan.tile_outputs || first + row >= t.rows) continue;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        if (n + i < count) {
          f(n + i, static_cast<int64_t>(n + i) * t.rows + first + row,
            2 * half + i);
        }
      }
    }
  }
  // The values in out at those places, or 0 if they are not added to.
  __device__ float4 Old(int first, int owner, int j) const {
    float old[4] = {};
    if (t.accumulate) {
      ForEach(first, owner, j, [&](int n, int64_t at, int e) {
        old[e] = t.float_out ? static_cast<const float*>(t.out)[at]
                             : ToFloat(static_cast<const BFloat16*>(t.out)[at]);
      });
    }
    return make_float4(old[0], old[1], old[2], old[3]);
  }
  __device__ float ScaleOf(int n) const {
    return kSide == Side::kBehind ? front.scale[n] : 1.0f;
  }
  __device__ void Write(int64_t at, float value) const {
    if (t.float_out) {
      static_cast<float*>(t.out)[at] = value;
    } else {
      static_cast<BFloat16*>(t.out)[at] = FromFloat<BFloat16>(value);
    }
  }
  __device__ void WriteBlock(int first, int owner, int j, float4 d,
                             float4 old) const {
    const float of_d[4] = {d.x, d.y, d.z, d.w};
    const float of_old[4] = {old.x, old.y, old.z, old.w};
    ForEach(first, owner, j, [&](int n, int64_t at, int e) {
      Write(at, of_old[e] + of_d[e] * ScaleOf(n));
    });
  }

  // Gates are the first half of a tile's rows. A gate and its up are generally
  // in different warps, so ups go through shared memory.
  __device__ void WriteGated(int tile, const float (&d)[kN / 2]) const {
    auto& up = front.up[tile % 2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row =
          FirstRowOf(thread()) + kRowsApart * half - t.plan.tile_outputs;
      if (row < 0 || row >= t.plan.tile_outputs) continue;
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        *reinterpret_cast<float2*>(&up[row][8 * j + 2 * (thread() % 4)]) =
            make_float2(d[4 * j + 2 * half], d[4 * j + 2 * half + 1]);
      }
    }
    const uint32_t written = AddressOf(&front.ups_written);
    Arrive(written);
    WaitBarrier(written, tile % 2);
    const int first = share.FirstOutput(t, tile);
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      ForEach(first, thread(), j, [&](int n, int64_t at, int e) {
        const float scale = ScaleOf(n);
        Write(at,
              Silu(d[4 * j + e] * scale) *
                  (up[FirstRowOf(thread()) + kRowsApart * (e / 2)][n] * scale));
      });
    }
  }

  // The weights of the norm after the product, for an owner's two rows.
  __device__ float2 WeightsOf(int owner) const {
    const int column = share.FirstOutput(t, 0) + FirstRowOf(owner);
    float2 weight = {};
    if (column < t.rows) weight.x = t.norm.weight[column];
    if (column + kRowsApart < t.rows) {
      weight.y = t.norm.weight[column + kRowsApart];
    }
    return weight;
  }
  // Like WriteBlock() for the only tile, and also writes the weighted values
  // and the sums of the squares of the warp's rows. Whole warps call it.
  __device__ void WriteForNorm(int owner, int j, float4 d, float4 old,
                               float2 weight) const {
    const float sum[4] = {old.x + d.x, old.y + d.y, old.z + d.z, old.w + d.w};
    const float of_rows[2] = {weight.x, weight.y};
    float squares[2] = {};
    ForEach(share.FirstOutput(t, 0), owner, j, [&](int n, int64_t at, int e) {
      const BFloat16 rounded = FromFloat<BFloat16>(sum[e]);
      const float x = ToFloat(rounded);
      static_cast<BFloat16*>(t.out)[at] = rounded;
      static_cast<BFloat16*>(t.norm.weighted)[at] =
          FromFloat<BFloat16>(x * of_rows[e / 2]);
      squares[e % 2] += x * x;
    });
    const int groups = PartsOfTile(t.plan);
    const int group = owner / 32;
    const int part = share.group * groups + group;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
#pragma unroll
      for (int lanes = 4; lanes < 32; lanes *= 2) {
        squares[i] += __shfl_xor_sync(~0u, squares[i], lanes);
      }
      const int n = 8 * j + 2 * (owner % 4) + i;
      if (owner % 32 < 4 && group < groups && n < count) {
        t.norm.squares[n * t.norm.parts + part] = squares[i];
      }
    }
  }
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_STREAM_SUMS_CUH_
