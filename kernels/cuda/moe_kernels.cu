// Six launches: logits, routing, grouping, both products, the sum.
//
// A warp computes an output column for up to kChunk rows at once, so that the
// weights are read once for them. That suits few rows; it is no match for
// tensor cores where there are many.
#include "kernels/cuda/moe_kernels.h"

#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"

namespace bole::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kGroupThreads = 512;
constexpr int kChunk = 8;

__device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }
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

// Greater for the better expert: by the logit, then by the lower number. All
// differ, not-a-numbers too.
__device__ uint64_t RankKey(float logit, int expert) {
  const uint32_t bits = __float_as_uint(logit);
  const uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 |
         (0xfffffffeu - static_cast<uint32_t>(expert));
}
__device__ int ExpertOf(uint64_t key) {
  return static_cast<int>(0xfffffffeu - static_cast<uint32_t>(key));
}

// The greatest key below `bound` of a row's logits, in every lane.
__device__ uint64_t BestBelow(uint64_t bound, const float* logits,
                              int num_experts) {
  uint64_t best = 0;
  for (int e = Lane(); e < num_experts; e += 32) {
    const uint64_t key = RankKey(logits[e], e);
    if (key < bound && key > best) best = key;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const uint64_t other = __shfl_xor_sync(0xffffffffu, best, offset);
    if (other > best) best = other;
  }
  return best;
}

// A row's experts and weights. Softmax over all experts, then division by the
// chosen ones' sum, is the softmax over the chosen logits. A warp for each row.
__global__ void __launch_bounds__(kThreads) RouteKernel(MoeTask t) {
  const int num_experts = t.experts.num_experts;
  const int row = WarpOfGrid();
  if (row >= *t.rows.count) return;
  const float* logits =
      t.scratch.logits + static_cast<int64_t>(row) * (num_experts + 1);
  uint64_t bound = ~uint64_t{0};
  float max = 0;
  float sum = 0;
  for (int i = 0; i < t.experts_per_token; ++i) {
    bound = BestBelow(bound, logits, num_experts);
    const float logit = logits[ExpertOf(bound)];
    if (i == 0) max = logit;
    sum += expf(logit - max);
  }

  // The chosen are those that rank no lower than the last one.
  int32_t* expert = t.scratch.expert + static_cast<int64_t>(row) * t.places();
  float* weight = t.scratch.weight + static_cast<int64_t>(row) * t.places();
  int next = 0;
  for (int first = 0; first < num_experts; first += 32) {
    const int e = first + Lane();
    const bool chosen = e < num_experts && RankKey(logits[e], e) >= bound;
    const unsigned lanes = __ballot_sync(0xffffffffu, chosen);
    if (chosen) {
      const int place = next + __popc(lanes & ((1u << Lane()) - 1));
      expert[place] = e;
      weight[place] = expf(logits[e] - max) / sum;
    }
    next += __popc(lanes);
  }
  if (Lane() != 0) return;
  expert[t.experts_per_token] = num_experts;
  weight[t.experts_per_token] = Sigmoid(logits[num_experts]);
}

// Sorts the entries by expert. Those of one expert come in no order, which
// leaves no trace: each is computed for itself. One block.
__global__ void __launch_bounds__(kGroupThreads) GroupKernel(MoeTask t) {
  extern __shared__ int32_t shared[];
  const int num_experts = t.experts.num_experts;
  int32_t* count = shared;                 // [E]
  int32_t* cursor = shared + num_experts;  // [E]
  const int num_rows = *t.rows.count;
  const int chosen = num_rows * t.experts_per_token;
  const auto entry_of = [&](int i) {
    return i / t.experts_per_token * t.places() + i % t.experts_per_token;
  };
  for (int e = threadIdx.x; e < num_experts; e += kGroupThreads) count[e] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < chosen; i += kGroupThreads) {
    atomicAdd(&count[t.scratch.expert[entry_of(i)]], 1);
  }
  __syncthreads();

  // Number E closes the list.
  for (int e = threadIdx.x; e <= num_experts; e += kGroupThreads) {
    int first = 0;
    int place = 0;
    for (int before = 0; before < e; ++before) {
      first += count[before];
      place += count[before] > 0 ? 1 : 0;
    }
    if (e == num_experts) {
      t.scratch.group[place] = {.expert = e, .first = first, .count = num_rows};
      *t.scratch.num_groups = place + 1;
      continue;
    }
    cursor[e] = first;
    if (count[e] == 0) continue;
    t.scratch.group[place] = {.expert = e, .first = first, .count = count[e]};
  }
  __syncthreads();

  for (int i = threadIdx.x; i < chosen; i += kGroupThreads) {
    const int entry = entry_of(i);
    t.scratch.entry[atomicAdd(&cursor[t.scratch.expert[entry]], 1)] = entry;
  }
  for (int row = threadIdx.x; row < num_rows; row += kGroupThreads) {
    t.scratch.entry[chosen + row] = row * t.places() + t.experts_per_token;
  }
}

// inner = silu(gate_e x) * up_e x. Grid: columns of the widest expert in groups
// of kWarps, groups.
template <typename T>
__global__ void __launch_bounds__(kThreads) GateUpKernel(MoeTask t) {
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

// out += sum of weight * y. Grid: rows, columns in groups of kThreads.
template <typename T>
__global__ void __launch_bounds__(kThreads) SumKernel(MoeTask t) {
  const int hidden = t.experts.hidden;
  const int row = blockIdx.x;
  const int column = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (row >= *t.rows.count || column >= hidden) return;
  T* out = As<T>(t.out) + static_cast<int64_t>(row) * hidden + column;
  const int64_t first_entry = static_cast<int64_t>(row) * t.places();
  float sum = ToFloat(*out);
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
void LaunchAll(const MoeTask& t, cudaStream_t stream) {
  const MoeExperts& m = t.experts;
  const auto groups = static_cast<unsigned>(
      MaxMoeGroups(t.rows.max, t.experts_per_token, m.num_experts));
  const size_t group_bytes = 2 * sizeof(int32_t) * m.num_experts;
  const dim3 logits(Blocks(m.num_experts + 1, kWarps),
                    Blocks(t.rows.max, kChunk));
  LogitsKernel<T><<<logits, kThreads, 0, stream>>>(t);
  RouteKernel<<<Blocks(t.rows.max, kWarps), kThreads, 0, stream>>>(t);
  GroupKernel<<<1, kGroupThreads, group_bytes, stream>>>(t);
  const dim3 gate_up(Blocks(m.max_width(), kWarps), groups);
  GateUpKernel<T><<<gate_up, kThreads, 0, stream>>>(t);
  const dim3 down(Blocks(m.hidden, kWarps), groups);
  DownKernel<T><<<down, kThreads, 0, stream>>>(t);
  const dim3 sum(t.rows.max, Blocks(m.hidden, kThreads));
  SumKernel<T><<<sum, kThreads, 0, stream>>>(t);
}

}  // namespace

absl::Status LaunchMoe(const MoeTask& task, const Launch& on) {
  WithElement(on.type, [&](auto element) {
    LaunchAll<decltype(element)>(task, on.stream);
  });
  return LaunchStatus("Moe");
}

}  // namespace bole::cuda
