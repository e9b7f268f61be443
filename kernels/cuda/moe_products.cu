// Products of an expert's weights with the rows that chose it, bound by how
// fast the weights can be read.
//
// A tile is 16 rows of a matrix, the left operand of mma.sync, straight from
// memory: a sum over columns may take them in any order, so a lane takes 8
// neighbours of 32 columns, 16 bytes of each of its two rows, as operands of
// two products, and the same 8 of its row of x. Warps of a block divide the
// columns between them, so that enough loads are on their way although few
// experts are chosen, and add up their sums in order.
#include "kernels/cuda/moe_products.h"

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"

namespace bole::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kSpan = 32;      // Columns of two products.
constexpr int kBlockRows = 8;  // Rows of x in a product.
constexpr int kMaxBlocks = 4;  // Of them, at a time.

__device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ int Warp() { return static_cast<int>(threadIdx.x) / 32; }

// Read once: the first-level cache is left to x.
__device__ uint4 LoadWeights(const BFloat16* from) {
  uint4 v;
  asm volatile(
      "ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(from));
  return v;
}

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
  // So many loads are on their way together.
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
      low[s] = LoadWeights(tile.low + (first + s) * kSpan);
      high[s] = LoadWeights(tile.high + (first + s) * kSpan);
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (first + s >= spans) continue;
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        right[s][b] = make_uint4(0, 0, 0, 0);
        if (x.row[b] == nullptr) continue;
        right[s][b] = LoadVector(x.row[b] + (first + s) * kSpan);
      }
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (first + s >= spans) continue;
      const uint32_t left[2][4] = {{low[s].x, high[s].x, low[s].y, high[s].y},
                                   {low[s].z, high[s].z, low[s].w, high[s].w}};
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        MultiplyAdd(sum[b], left[0], right[s][b].x, right[s][b].y);
        MultiplyAdd(sum[b], left[1], right[s][b].z, right[s][b].w);
      }
    }
  }
}

// The sums of kSplit warps that divided the columns of one tile, in the first
// of them, in the order of the warps.
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
//   kMajor             entries of a group, or all rows,
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
  const int spans = product.columns() / kSpan;
  const int first_span = part * spans / kSplit;
  const int my_spans = (part + 1) * spans / kSplit - first_span;
  const int column = first_span * kSpan + Lane() % 4 * kVector;
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

// A block's tiles, the blocks of a grid along x.
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

// Logits of all experts, the shared gate last: 16 experts a tile.
struct LogitsProduct {
  static constexpr int kSplit = kWarps;
  const MoeTask& t;
  int count;

  __device__ int num_rows() const { return count; }
  __device__ int columns() const { return t.experts.hidden; }
  __device__ bool HasTile(int tile) const {
    return 16 * tile <= t.experts.num_experts;
  }
  __device__ const BFloat16* Expert(int e) const {
    const MoeExperts& m = t.experts;
    if (e >= m.num_experts) return static_cast<const BFloat16*>(m.shared_gate);
    return static_cast<const BFloat16*>(m.router) +
           static_cast<int64_t>(e) * m.hidden;
  }
  __device__ TileRows Tile(int tile) const {
    const int e = 16 * tile + Lane() / 4;
    return {Expert(e), Expert(e + 8)};
  }
  __device__ const BFloat16* Row(int i) const {
    return As<BFloat16>(t.x) + static_cast<int64_t>(i) * t.experts.hidden;
  }
  __device__ void Store(int tile, int i, const float (&sum)[4]) const {
    const int width = t.experts.num_experts + 1;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int row = i + n % 2;
      const int e = 16 * tile + Lane() / 4 + n / 2 * 8;
      if (row >= count || e >= width) continue;
      t.scratch.logits[static_cast<int64_t>(row) * width + e] = sum[n];
    }
  }
};

// inner = silu(gate x) * up x, of 8 columns a tile: their rows of gate, then of
// up.
struct GateUpProduct {
  static constexpr int kSplit = kWarps;
  const MoeTask& t;
  MoeGroup group;
  int width;

  __device__ int num_rows() const { return group.count; }
  __device__ int columns() const { return t.experts.hidden; }
  __device__ bool HasTile(int tile) const { return 8 * tile < width; }
  __device__ TileRows Tile(int tile) const {
    const auto* w =
        static_cast<const BFloat16*>(t.experts.gate_ups[group.expert]) +
        static_cast<int64_t>(8 * tile + Lane() / 4) * t.experts.hidden;
    return {w, w + static_cast<int64_t>(width) * t.experts.hidden};
  }
  __device__ const BFloat16* Row(int i) const {
    const int row = t.scratch.entry[group.first + i] / t.places();
    return As<BFloat16>(t.x) + static_cast<int64_t>(row) * t.experts.hidden;
  }
  __device__ void Store(int tile, int i, const float (&sum)[4]) const {
    auto* inner = reinterpret_cast<BFloat16*>(t.scratch.inner);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if (i + n >= group.count) continue;
      const int64_t entry = t.scratch.entry[group.first + i + n];
      inner[entry * t.experts.max_width() + 8 * tile + Lane() / 4] =
          FromFloat<BFloat16>(Silu(sum[n]) * sum[2 + n]);
    }
  }
};

// y = down inner, 16 columns a tile.
struct DownProduct {
  static constexpr int kSplit = 2;
  const MoeTask& t;
  MoeGroup group;
  int width;

  __device__ int num_rows() const { return group.count; }
  __device__ int columns() const { return width; }
  __device__ bool HasTile(int tile) const {
    return 16 * tile < t.experts.hidden;
  }
  __device__ TileRows Tile(int tile) const {
    const auto* w =
        static_cast<const BFloat16*>(t.experts.downs[group.expert]) +
        static_cast<int64_t>(16 * tile + Lane() / 4) * width;
    return {w, w + static_cast<int64_t>(8) * width};
  }
  __device__ const BFloat16* Row(int i) const {
    const int64_t entry = t.scratch.entry[group.first + i];
    return reinterpret_cast<const BFloat16*>(t.scratch.inner) +
           entry * t.experts.max_width();
  }
  __device__ void Store(int tile, int i, const float (&sum)[4]) const {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (i + n % 2 >= group.count) continue;
      const int64_t entry = t.scratch.entry[group.first + i + n % 2];
      t.scratch
          .y[entry * t.experts.hidden + 16 * tile + Lane() / 4 + n / 2 * 8] =
          sum[n];
    }
  }
};

// Grid: tiles.
__global__ void __launch_bounds__(kThreads, 4)
    LogitsKernel(const __grid_constant__ MoeTask t) {
  WaitForPrevious();
  StartNext();
  RunTiles(LogitsProduct{.t = t, .count = *t.rows.count});
}

// Grid: tiles in groups of kWarps / kSplit, groups of entries.
template <typename Product>
__global__ void __launch_bounds__(kThreads, 4)
    ExpertKernel(const __grid_constant__ MoeTask t) {
  WaitForPrevious();
  StartNext();
  // Read together; a group beyond the last is not looked at.
  const int num_groups = *t.scratch.num_groups;
  const MoeGroup group = t.scratch.group[blockIdx.y];
  if (static_cast<int>(blockIdx.y) >= num_groups) return;
  RunTiles(Product{
      .t = t, .group = group, .width = t.experts.WidthOf(group.expert)});
}

template <typename Product>
absl::Status LaunchExperts(const MoeTask& task, int tiles, const Launch& on) {
  const int groups = MaxMoeGroups(task.rows.max, task.experts_per_token,
                                  task.experts.num_experts);
  constexpr int kTiles = kWarps / Product::kSplit;
  const dim3 grid((tiles + kTiles - 1) / kTiles, groups);
  return LaunchDependent("Moe, experts", ExpertKernel<Product>,
                         {.grid = grid, .block = kThreads}, on, task);
}

}  // namespace

bool CanTileMoe(const MoeTask& task, const Launch& on) {
  const MoeExperts& m = task.experts;
  return on.type == ElementType::kBFloat16 && m.hidden % kSpan == 0 &&
         m.width % kSpan == 0 && m.shared_width % kSpan == 0;
}

absl::Status LaunchMoeLogits(const MoeTask& task, const Launch& on) {
  const dim3 grid(task.experts.num_experts / 16 + 1);
  return LaunchDependent("Moe, logits", LogitsKernel,
                         {.grid = grid, .block = kThreads}, on, task);
}

absl::Status LaunchMoeGateUp(const MoeTask& task, const Launch& on) {
  return LaunchExperts<GateUpProduct>(task, task.experts.max_width() / 8, on);
}

absl::Status LaunchMoeDown(const MoeTask& task, const Launch& on) {
  return LaunchExperts<DownProduct>(task, task.experts.hidden / 16, on);
}

}  // namespace bole::cuda
