// Launches three kernels for few rows (moe_streamed.h), otherwise six: logits,
// routing and grouping (moe_routing.cu), both products, the sum.
//
// The products here are for any type and size: a warp computes an output column
// for up to kChunk rows at once, so that the weights are read once for them.
// moe_products.cu has products on tensor cores.
#include "kernels/cuda/moe/moe_kernels.h"

#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/moe/moe_lanes.cuh"
#include "kernels/cuda/moe/moe_products.h"
#include "kernels/cuda/moe/moe_streamed.h"

namespace bole::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kChunk = 8;

using moe::Lane;

// Which of the grid's warps along x this is.
__device__ int WarpOfGrid() {
  return static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32);
}

// Up to kChunk vectors.
template <typename X>
struct Chunk {
  int count;
  const X* x[kChunk];
};

// sum[w][r] = weights[w] . x[r], of n elements, in every lane.
template <int kWeights, typename T, typename X>
__device__ void Dots(const T* const (&weights)[kWeights], const Chunk<X>& chunk,
                     int n, float (&sum)[kWeights][kChunk]) {
#pragma unroll
  for (int w = 0; w < kWeights; ++w) {
#pragma unroll
    for (int r = 0; r < kChunk; ++r) sum[w][r] = 0;
  }
#pragma unroll 4
  for (int c = Lane(); c < n; c += 32) {
    float weight[kWeights];
#pragma unroll
    for (int w = 0; w < kWeights; ++w) weight[w] = ToFloat(weights[w][c]);
#pragma unroll
    for (int r = 0; r < kChunk; ++r) {
      if (r >= chunk.count) continue;
      const float x = ToFloat(chunk.x[r][c]);
#pragma unroll
      for (int w = 0; w < kWeights; ++w) sum[w][r] += weight[w] * x;
    }
  }
#pragma unroll
  for (int r = 0; r < kChunk; ++r) {
    if (r >= chunk.count) continue;
#pragma unroll
    for (int w = 0; w < kWeights; ++w) sum[w][r] = WarpSum(sum[w][r]);
  }
}

// The router's logits, and the shared gate's. Grid: experts and the shared one
// in groups of kWarps, rows in chunks.
template <typename T>
__global__ void __launch_bounds__(kThreads) LogitsKernel(MoeTask t) {
  WaitForPrevious();
  StartNext();
  const MoeExperts& m = t.experts;
  const int first_row = static_cast<int>(blockIdx.y) * kChunk;
  const int expert = WarpOfGrid();
  const int num_rows = *t.rows.count;
  if (first_row >= num_rows || expert > m.num_experts) return;

  Chunk<T> chunk = {.count = min(kChunk, num_rows - first_row), .x = {}};
#pragma unroll
  for (int r = 0; r < kChunk; ++r) {
    chunk.x[r] = As<T>(t.x) + static_cast<int64_t>(first_row + r) * m.hidden;
  }
  const T* const weights[1] = {
      expert == m.num_experts ? static_cast<const T*>(m.shared_gate)
                              : static_cast<const T*>(m.router) +
                                    static_cast<int64_t>(expert) * m.hidden};
  float sum[1][kChunk];
  Dots(weights, chunk, m.hidden, sum);
#pragma unroll
  for (int r = 0; r < kChunk; ++r) {
    if (r >= chunk.count || Lane() != r) continue;
    t.scratch.logits[static_cast<int64_t>(first_row + r) * (m.num_experts + 1) +
                     expert] = sum[0][r];
  }
}

// inner = silu(gate_e x) * up_e x. Grid: columns of the widest expert in groups
// of kWarps, groups.
template <typename T>
__global__ void __launch_bounds__(kThreads) GateUpKernel(MoeTask t) {
  WaitForPrevious();
  StartNext();
  if (static_cast<int>(blockIdx.y) >= *t.scratch.num_groups) return;
  const MoeExperts& m = t.experts;
  const MoeGroup group = t.scratch.group[blockIdx.y];
  const int width = m.WidthOf(group.expert);
  const int column = WarpOfGrid();
  if (column >= width) return;
  const T* gate_up = static_cast<const T*>(m.gate_ups[group.expert]);
  const T* const weights[2] = {
      gate_up + static_cast<int64_t>(column) * m.hidden,
      gate_up + static_cast<int64_t>(width + column) * m.hidden};

  for (int first = 0; first < group.count; first += kChunk) {
    const int32_t* entry = t.scratch.entry + group.first + first;
    Chunk<T> chunk = {.count = min(kChunk, group.count - first), .x = {}};
#pragma unroll
    for (int r = 0; r < kChunk; ++r) {
      if (r >= chunk.count) continue;
      const int row = entry[r] / t.places();
      chunk.x[r] = As<T>(t.x) + static_cast<int64_t>(row) * m.hidden;
    }
    float sum[2][kChunk];
    Dots(weights, chunk, m.hidden, sum);
#pragma unroll
    for (int r = 0; r < kChunk; ++r) {
      if (r >= chunk.count || Lane() != r) continue;
      t.scratch.inner[static_cast<int64_t>(entry[r]) * m.max_width() + column] =
          Silu(sum[0][r]) * sum[1][r];
    }
  }
}

// y = down_e inner. Grid: columns in groups of kWarps, groups.
template <typename T>
__global__ void __launch_bounds__(kThreads) DownKernel(MoeTask t) {
  WaitForPrevious();
  StartNext();
  if (static_cast<int>(blockIdx.y) >= *t.scratch.num_groups) return;
  const MoeExperts& m = t.experts;
  const MoeGroup group = t.scratch.group[blockIdx.y];
  const int width = m.WidthOf(group.expert);
  const int column = WarpOfGrid();
  if (column >= m.hidden) return;
  const T* const weights[1] = {static_cast<const T*>(m.downs[group.expert]) +
                               static_cast<int64_t>(column) * width};

  for (int first = 0; first < group.count; first += kChunk) {
    const int32_t* entry = t.scratch.entry + group.first + first;
    Chunk<float> chunk = {.count = min(kChunk, group.count - first), .x = {}};
#pragma unroll
    for (int r = 0; r < kChunk; ++r) {
      if (r >= chunk.count) continue;
      chunk.x[r] =
          t.scratch.inner + static_cast<int64_t>(entry[r]) * m.max_width();
    }
    float sum[1][kChunk];
    Dots(weights, chunk, width, sum);
#pragma unroll
    for (int r = 0; r < kChunk; ++r) {
      if (r >= chunk.count || Lane() != r) continue;
      t.scratch.y[static_cast<int64_t>(entry[r]) * m.hidden + column] =
          sum[0][r];
    }
  }
}

// out += sum of weight * y, or out = that. Grid: rows, columns in groups of
// kThreads.
template <typename T>
__global__ void __launch_bounds__(kThreads) SumKernel(MoeTask t) {
  WaitForPrevious();
  StartNext();
  const int hidden = t.experts.hidden;
  const int row = blockIdx.x;
  const int column = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (row >= *t.rows.count || column >= hidden) return;
  T* out = As<T>(t.out) + static_cast<int64_t>(row) * hidden + column;
  const int64_t first_entry = static_cast<int64_t>(row) * t.places();
  float sum = t.accumulate ? ToFloat(*out) : 0;
#pragma unroll 4
  for (int place = 0; place < t.places(); ++place) {
    const int64_t entry = first_entry + place;
    sum += t.scratch.weight[entry] * t.scratch.y[entry * hidden + column];
  }
  *out = FromFloat<T>(sum);
}

unsigned Blocks(int items, int per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

template <typename T>
absl::Status LaunchLogits(const MoeTask& t, const Launch& on) {
  if (CanTileMoe(t, on)) return LaunchMoeLogits(t, on);
  const dim3 grid(Blocks(t.experts.num_experts + 1, kWarps),
                  Blocks(t.rows.max, kChunk));
  return LaunchDependent("Moe, logits", LogitsKernel<T>,
                         {.grid = grid, .block = kThreads}, on, t);
}

template <typename T>
absl::Status LaunchExperts(const MoeTask& t, const Launch& on) {
  const MoeExperts& m = t.experts;
  const bool tiles = CanTileMoe(t, on);
  const auto groups = static_cast<unsigned>(
      MaxMoeGroups(t.rows.max, t.experts_per_token, m.num_experts));
  const dim3 gate_up(Blocks(m.max_width(), kWarps), groups);
  const absl::Status status =
      tiles ? LaunchMoeGateUp(t, on)
            : LaunchDependent("Moe, gate and up", GateUpKernel<T>,
                              {.grid = gate_up, .block = kThreads}, on, t);
  if (!status.ok()) return status;
  const dim3 down(Blocks(m.hidden, kWarps), groups);
  return tiles ? LaunchMoeDown(t, on)
               : LaunchDependent("Moe, down", DownKernel<T>,
                                 {.grid = down, .block = kThreads}, on, t);
}

template <typename T>
absl::Status LaunchAll(const MoeTask& t, const Launch& on) {
  const absl::Status logits = LaunchLogits<T>(t, on);
  if (!logits.ok()) return logits;
  const absl::Status routing = LaunchMoeRouting(t, on);
  if (!routing.ok()) return routing;
  const absl::Status experts = LaunchExperts<T>(t, on);
  if (!experts.ok()) return experts;
  const dim3 sum(t.rows.max, Blocks(t.experts.hidden, kThreads));
  return LaunchDependent("Moe, sum", SumKernel<T>,
                         {.grid = sum, .block = kThreads}, on, t);
}

}  // namespace

absl::Status LaunchMoe(const MoeTask& task, const Launch& on) {
  if (CanStreamMoe(task, on)) {
    const absl::Status logits = LaunchStreamedMoeLogits(task, on);
    if (!logits.ok()) return logits;
    const absl::Status gate_up = LaunchStreamedMoeGateUp(task, on);
    return gate_up.ok() ? LaunchStreamedMoeDown(task, on) : gate_up;
  }
  return on.type == ElementType::kFloat32 ? LaunchAll<float>(task, on)
                                          : LaunchAll<BFloat16>(task, on);
}

}  // namespace bole::cuda
