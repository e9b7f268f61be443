// What a warp of a value tile computes (stage 2 of the two-stage verification):
// the products with the state, the finite Neumann series, and the output.
//
// Everything is transposed: a warp owns 16 or 32 value columns and holds Z^T,
// U^T, O^T [columns, nodes] in registers, so that each round leaves its results
// where the next one reads them.
#ifndef BOLE_KERNELS_CUDA_VERIFY_TWO_STAGE_SERIES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_TWO_STAGE_SERIES_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/mma_tf32.cuh"
#include "kernels/cuda/verify/two_stage_memory.cuh"

namespace bole::cuda {

// A warp's sums [columns, nodes]: 16-column tiles of 8 nodes each.
template <int kNodes, int kTiles>
using Sums = float[kNodes / 8][kTiles][4];

// Copies a warp's rows of the state into its ring, chunk after chunk. Lane
// 4 g + t copies keys 4t .. 4t + 3 of rows g and g + 8 of every tile.
template <int kTiles>
struct StateStream {
  const float* row;  // The lane's first row; null: the state is zero.
  StateRing<kTiles>& ring;

  __device__ void Copy(int chunk) const {
    if (chunk < kTreeKeyDim / kChunkKeys) {
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        const int64_t at = i * 8 * kTreeKeyDim + chunk * kChunkKeys;
        CopyAsync16(SharedAddress(&ring[chunk % kAhead][i][threadIdx.x % 32]),
                    row == nullptr ? nullptr : row + at, row != nullptr);
      }
    }
    CommitCopies();
  }
  // Left operands of the chunk's two steps.
  __device__ void Load(int chunk, uint32_t (&a)[2][kTiles][4]) const {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const float4 x = ring[chunk % kAhead][i][threadIdx.x % 32];
      const int at = i % 2 * 2;
      a[0][i / 2][at] = ToTf32(x.x);
      a[0][i / 2][at + 1] = ToTf32(x.y);
      a[1][i / 2][at] = ToTf32(x.z);
      a[1][i / 2][at + 1] = ToTf32(x.w);
    }
  }
};

// The elements of two key rows that belong to a chunk's two steps, as floats.
__device__ inline void Widen(const BFloat16* from, uint32_t (&to)[4]) {
  const uint2 pairs = *reinterpret_cast<const uint2*>(from);
  to[0] = pairs.x << 16;
  to[1] = pairs.x & 0xffff0000u;
  to[2] = pairs.y << 16;
  to[3] = pairs.y & 0xffff0000u;
}

// ks = S k^T and qs = S q^T of every node. The first kAhead chunks have
// arrived.
template <int kNodes, int kTiles>
__device__ void MultiplyState(const StateStream<kTiles>& state,
                              const TileMemory<kNodes>& memory,
                              Sums<kNodes, kTiles>& ks,
                              Sums<kNodes, kTiles>& qs) {
  const int lane = threadIdx.x % 32;
  const int at = lane / 4 * kKeyStride + lane % 4 * 4;
#pragma unroll
  for (int chunk = 0; chunk < kTreeKeyDim / kChunkKeys; ++chunk) {
    if (chunk >= kAhead) WaitForCopies<kAhead - 1>();
    uint32_t a[2][kTiles][4];
    state.Load(chunk, a);
    state.Copy(chunk + kAhead);
#pragma unroll
    for (int n = 0; n < kNodes / 8; ++n) {
      const int from = at + 8 * n * kKeyStride + chunk * kChunkKeys;
      uint32_t k[4];
      uint32_t q[4];
      Widen(memory.k + from, k);
      Widen(memory.q + from, q);
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        const int step = i / kTiles;
        const int m = i % kTiles;
        MultiplyAddTf32(ks[n][m], a[step][m], k[2 * step], k[2 * step + 1]);
        MultiplyAddTf32(qs[n][m], a[step][m], q[2 * step], q[2 * step + 1]);
      }
    }
  }
}

// u = R = beta (v - P k S) from ks, o = P q S from qs; z is R in tf32. Column
// `first` of the block is the warp's first.
template <int kNodes, int kTiles>
__device__ void StartSeries(const TileMemory<kNodes>& memory, int columns,
                            int first, uint32_t (&z)[kNodes / 8][kTiles][4],
                            Sums<kNodes, kTiles>& u, Sums<kNodes, kTiles>& o) {
  const int lane = threadIdx.x % 32;
  const int stride = columns + kPadding;
#pragma unroll
  for (int n = 0; n < kNodes / 8; ++n) {
    const int node = 8 * n + lane % 4 * 2;
    const float2 beta = *reinterpret_cast<const float2*>(memory.beta + node);
    const float2 pk = *reinterpret_cast<const float2*>(memory.k_factor + node);
    const float2 pq = *reinterpret_cast<const float2*>(memory.q_factor + node);
    uint32_t v[4];  // Columns 0, 8, 16, 24 of the warp.
    LoadTransposed(SharedAddress(memory.v + (8 * n + lane % 8) * stride +
                                 first + lane / 8 * 8 % (16 * kTiles)),
                   v);
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      const int m = i / 4;
      const int e = i % 4;
      const uint32_t pair = v[2 * m + e / 2];
      const float value =
          __uint_as_float(e % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
      u[n][m][e] = (e % 2 == 0 ? beta.x : beta.y) *
                   (value - (e % 2 == 0 ? pk.x : pk.y) * u[n][m][e]);
      o[n][m][e] *= e % 2 == 0 ? pq.x : pq.y;
      z[n][m][e] = ToTf32(u[n][m][e]);
    }
  }
}

// sums[i] += x times rows 8 (n + i) .. of a lower triangular matrix,
// transposed. kGroup of them are computed side by side, for more products in
// flight.
template <int kNodes, int kTiles, int kGroup>
__device__ void MultiplyRows(const uint32_t (&x)[kNodes / 8][kTiles][4],
                             const float* matrix, int n,
                             float (&sums)[kGroup][kTiles][4]) {
  constexpr int kStride = TileMemory<kNodes>::kStride;
  const int lane = threadIdx.x % 32;
  const float* row = matrix + (8 * n + lane / 4) * kStride + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < kNodes / 8; ++j) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (j > n + i) continue;
      const uint2 pair =
          *reinterpret_cast<const uint2*>(row + 8 * i * kStride + 8 * j);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        MultiplyAddTf32(sums[i][m], x[j][m], pair.x, pair.y);
      }
    }
  }
}

template <int kNodes, int kTiles>
constexpr int kSideBySide = 4 / kTiles < kNodes / 8 ? 4 / kTiles : kNodes / 8;

// One round: Z <- -G Z, U += Z. It runs in place from the last nodes to the
// first: G is lower triangular, so values that were overwritten are not read
// again.
template <int kNodes, int kTiles>
__device__ void AdvanceSeries(const float* g,
                              uint32_t (&z)[kNodes / 8][kTiles][4],
                              Sums<kNodes, kTiles>& u) {
  constexpr int kGroup = kSideBySide<kNodes, kTiles>;
#pragma unroll
  for (int n = kNodes / 8 - kGroup; n >= 0; n -= kGroup) {
    float next[kGroup][kTiles][4] = {};
    MultiplyRows<kNodes, kTiles, kGroup>(z, g, n, next);
#pragma unroll
    for (int i = 0; i < kGroup * kTiles * 4; ++i) {
      const int tile = i / (kTiles * 4);
      const int m = i / 4 % kTiles;
      const float value = next[tile][m][i % 4];
      u[n + tile][m][i % 4] += value;
      z[n + tile][m][i % 4] = ToTf32(value);
    }
  }
}

// O += C U.
template <int kNodes, int kTiles>
__device__ void ReadOut(const float* c, const Sums<kNodes, kTiles>& u,
                        Sums<kNodes, kTiles>& o) {
  constexpr int kGroup = kSideBySide<kNodes, kTiles>;
  uint32_t x[kNodes / 8][kTiles][4];
#pragma unroll
  for (int i = 0; i < kNodes / 8 * kTiles * 4; ++i) {
    x[i / (kTiles * 4)][i / 4 % kTiles][i % 4] =
        ToTf32(u[i / (kTiles * 4)][i / 4 % kTiles][i % 4]);
  }
#pragma unroll
  for (int n = 0; n < kNodes / 8; n += kGroup) {
    MultiplyRows<kNodes, kTiles, kGroup>(
        x, c, n, *reinterpret_cast<float(*)[kGroup][kTiles][4]>(&o[n]));
  }
}

// Writes the warp's columns of out, through its own columns of v.
template <int kNodes, int kTiles>
__device__ void StoreOut(const TileWork& on, const TileMemory<kNodes>& memory,
                         int first, const Sums<kNodes, kTiles>& o) {
  const int lane = threadIdx.x % 32;
  const int stride = on.columns + kPadding;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kNodes / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const float* pair = &o[n][i / 2][i % 2 * 2];
      uint32_t* to =
          reinterpret_cast<uint32_t*>(memory.v + (8 * n + lane / 4) * stride +
                                      first + 8 * i + lane % 4 * 2);
      *to = Transposed(PackBFloat16(pair[0], pair[1]));
    }
  }
  __syncwarp();
  constexpr int kPieces = 2 * kTiles;  // 16 bytes each, in a node's columns.
  for (int i = lane; i < on.count * kPieces; i += 32) {
    const int node = i / kPieces;
    const int column = first + i % kPieces * 8;
    BFloat16* to = As<BFloat16>(on.p.out) +
                   on.value_row(node) * on.p.shape.value_dim + on.first_column +
                   column;
    *reinterpret_cast<uint4*>(to) =
        *reinterpret_cast<const uint4*>(memory.v + node * stride + column);
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_TWO_STAGE_SERIES_CUH_
