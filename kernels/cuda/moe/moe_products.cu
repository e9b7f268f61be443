// Products of an expert's weights with the rows that chose it, bound by how
// fast the weights can be read.
//
// A tile is 16 rows of a matrix, which are the left operand of mma.sync
// straight from memory. A sum over columns may take them in any order, so of
// every 32 columns a lane takes 8 neighbours, 16 bytes of each of its two rows,
// as operands of two products, and the same 8 columns of its row of x. The
// warps of a block divide the columns between them, so that enough loads are in
// flight although few experts are chosen, and add up their sums in order.
#include "kernels/cuda/moe/moe_products.h"

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/moe/moe_tiles.cuh"

namespace bole::cuda {
namespace moe {
namespace {

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
  static constexpr bool kIsFirst = true;
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
  static constexpr bool kIsFirst = false;
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

// While a block adds up its sums and ends, and the next one finds out what to
// read, memory would be idle. So a block prefetches what is read by the block
// that starts about when it ends.
template <typename Product>
class LaterBlock {
 public:
  // Loads the group of the later block; there may be none of that number.
  __device__ explicit LaterBlock(const MoeTask& t) : t_(t) {
    const auto width = static_cast<int>(gridDim.x);
    const int block =
        static_cast<int>(blockIdx.y) * width + static_cast<int>(blockIdx.x);
    x_ = (block + kAhead) % width;
    y_ = (block + kAhead) / width;
    group_ = t.scratch.group[min(y_, static_cast<int>(gridDim.y) - 1)];
  }

  __device__ void Prefetch(int num_groups) const {
    if (y_ >= num_groups) return;
    const Product product{
        .t = t_, .group = group_, .width = t_.experts.WidthOf(group_.expert)};
    const int tile = x_ * kWarps / Product::kSplit + Warp() / Product::kSplit;
    if (!product.HasTile(tile)) return;
    const int part = Warp() % Product::kSplit;
    const TileRows rows = product.Tile(tile);
    const int end = (part + 1) * product.columns() / Product::kSplit;
    for (int c =
             part * product.columns() / Product::kSplit + Lane() % 4 * kLine;
         c < end; c += 4 * kLine) {
      PrefetchLine(rows.low + c);
      PrefetchLine(rows.high + c);
    }
  }

 private:
  static constexpr int kAhead = 264;

  const MoeTask& t_;
  MoeGroup group_;
  int x_;
  int y_;
};

// Prefetches this block's share of what DownProduct will read of its expert, if
// the weights of as many experts as the grid has groups together stay in L2.
__device__ void PrefetchDown(const MoeTask& t, const MoeGroup& group) {
  constexpr int64_t kMostElements = int64_t{12} << 20;
  const int64_t size =
      static_cast<int64_t>(t.experts.WidthOf(group.expert)) * t.experts.hidden;
  if (size * gridDim.y > kMostElements) return;
  const auto* down =
      static_cast<const BFloat16*>(t.experts.downs[group.expert]);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads * kLine;
  for (int64_t i =
           (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kLine;
       i < size; i += stride) {
    PrefetchLine(down + i);
  }
}

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
  // Both are loaded at once; a group beyond the last one is not used.
  const int num_groups = *t.scratch.num_groups;
  const MoeGroup group = t.scratch.group[blockIdx.y];
  const LaterBlock<Product> later(t);
  if (static_cast<int>(blockIdx.y) >= num_groups) return;
  later.Prefetch(num_groups);
  RunTiles(Product{
      .t = t, .group = group, .width = t.experts.WidthOf(group.expert)});
  if constexpr (Product::kIsFirst) PrefetchDown(t, group);
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
}  // namespace moe

bool CanTileMoe(const MoeTask& task, const Launch& on) {
  const MoeExperts& m = task.experts;
  return on.type == ElementType::kBFloat16 &&
         m.hidden % moe::kSpanColumns == 0 &&
         m.width % moe::kSpanColumns == 0 &&
         m.shared_width % moe::kSpanColumns == 0;
}

absl::Status LaunchMoeLogits(const MoeTask& task, const Launch& on) {
  const dim3 grid(task.experts.num_experts / 16 + 1);
  return LaunchDependent("Moe, logits", moe::LogitsKernel,
                         {.grid = grid, .block = moe::kThreads}, on, task);
}

absl::Status LaunchMoeGateUp(const MoeTask& task, const Launch& on) {
  return moe::LaunchExperts<moe::GateUpProduct>(
      task, task.experts.max_width() / 8, on);
}

absl::Status LaunchMoeDown(const MoeTask& task, const Launch& on) {
  return moe::LaunchExperts<moe::DownProduct>(task, task.experts.hidden / 16,
                                              on);
}

}  // namespace bole::cuda
