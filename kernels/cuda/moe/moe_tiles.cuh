// How a block of moe_products.cu multiplies tiles of a weight matrix by some
// rows of x, where the matrix is read once.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_TILES_CUH_
#define BOLE_KERNELS_CUDA_MOE_MOE_TILES_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/moe/moe_lanes.cuh"

namespace bole::cuda::moe {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kBlockRows = 8;  // Rows of x in a product.
inline constexpr int kMaxBlocks = 4;  // The most such blocks at a time.

// Loads weights without keeping them in L1, which is left to x: they are read
// once.
__device__ inline uint4 LoadWeights(const BFloat16* from) {
  uint4 v;
  asm volatile(
      "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
  return v;
}

// Prefetches a line of 128 bytes, which will be read soon, into L2.
__device__ inline void PrefetchLine(const BFloat16* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}
inline constexpr int kLine = 64;  // Elements.

// A lane's two rows of a tile of weights, at its first column.
struct TileRows {
  const BFloat16* low;   // Row lane / 4.
  const BFloat16* high;  // Row lane / 4 + 8.
};

// A lane's rows of x, at its first column; null: zeros.
template <int kBlocks>
struct RowBlocks {
  const BFloat16* row[kBlocks];
};

// sum[b] = tile x^T over `spans` spans, as mma.cuh lays it out: tile rows by
// rows of x.
template <int kBlocks>
__device__ void MultiplySpans(const TileRows& tile, const RowBlocks<kBlocks>& x,
                              int spans, float (&sum)[kBlocks][4]) {
  // The loads of this many spans are in flight together.
  constexpr int kAhead = kBlocks == 1 ? 8 : 2;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[b][i] = 0;
  }
  for (int first = 0; first < spans; first += kAhead) {
    uint4 low[kAhead];
    uint4 high[kAhead];
    uint4 right[kAhead][kBlocks];
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (first + s >= spans) continue;
      low[s] = LoadWeights(tile.low + (first + s) * kSpanColumns);
      high[s] = LoadWeights(tile.high + (first + s) * kSpanColumns);
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (first + s >= spans) continue;
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        right[s][b] = make_uint4(0, 0, 0, 0);
        if (x.row[b] == nullptr) continue;
        right[s][b] = LoadVector(x.row[b] + (first + s) * kSpanColumns);
      }
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (first + s >= spans) continue;
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        MultiplySpan(sum[b], low[s], high[s], right[s][b]);
      }
    }
  }
}

// Adds up the sums of the kSplit warps that divided the columns of one tile, in
// the order of the warps. The first of them gets the result.
template <int kSplit, int kBlocks>
__device__ void AddParts(float4 (&shared)[kMaxBlocks][kThreads],
                         float (&sum)[kBlocks][4]) {
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    shared[b][threadIdx.x] =
        make_float4(sum[b][0], sum[b][1], sum[b][2], sum[b][3]);
  }
  __syncthreads();
  if (Warp() % kSplit == 0) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (int part = 1; part < kSplit; ++part) {
        const float4 other = shared[b][threadIdx.x + 32 * part];
        sum[b][0] += other.x;
        sum[b][1] += other.y;
        sum[b][2] += other.z;
        sum[b][3] += other.w;
      }
    }
  }
  __syncthreads();
}

// What a kernel multiplies. Each type has
//   kSplit             warps to a tile,
//   HasTile(tile)      whether the matrix has the tile,
//   num_rows()         rows of x,
//   columns()          of the matrix and of x,
//   Tile(tile)         the matrix's rows, at column 0,
//   Row(i)             row i of x, at column 0,
//   Store(tile, i, sums)  what a lane has of row i and the next: of tile rows
//                      lane / 4 and lane / 4 + 8.
template <int kBlocks, typename Product>
__device__ void RunTile(const Product& product, int tile,
                        float4 (&shared)[kMaxBlocks][kThreads]) {
  constexpr int kSplit = Product::kSplit;
  const int part = Warp() % kSplit;
  const int spans = product.columns() / kSpanColumns;
  const int first_span = part * spans / kSplit;
  const int my_spans = (part + 1) * spans / kSplit - first_span;
  const int column = first_span * kSpanColumns + Lane() % 4 * kVector;
  const bool exists = product.HasTile(tile);
  TileRows rows = product.Tile(exists ? tile : 0);
  rows.low += column;
  rows.high += column;
  for (int first = 0; first < product.num_rows();
       first += kBlocks * kBlockRows) {
    RowBlocks<kBlocks> x;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const int i = first + b * kBlockRows + Lane() / 4;
      x.row[b] = i < product.num_rows() ? product.Row(i) + column : nullptr;
    }
    float sum[kBlocks][4];
    MultiplySpans(rows, x, my_spans, sum);
    AddParts<kSplit>(shared, sum);
    if (part != 0 || !exists) continue;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      product.Store(tile, first + b * kBlockRows + Lane() % 4 * 2, sum[b]);
    }
  }
}

// Runs a block's tiles; the blocks of a grid divide them along x.
template <typename Product>
__device__ void RunTiles(const Product& product) {
  __shared__ float4 shared[kMaxBlocks][kThreads];
  constexpr int kTiles = kWarps / Product::kSplit;
  const int first = static_cast<int>(blockIdx.x) * kTiles;
  if (!product.HasTile(first)) return;
  const int tile = first + Warp() / Product::kSplit;
  if (product.num_rows() <= kBlockRows) {
    RunTile<1>(product, tile, shared);
  } else {
    RunTile<kMaxBlocks>(product, tile, shared);
  }
}

}  // namespace bole::cuda::moe

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_TILES_CUH_
