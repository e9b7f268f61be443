// Finds the experts of every row, and the rows of every expert.
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/moe/moe_kernels.h"
#include "kernels/cuda/moe/moe_lanes.cuh"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kGroupThreads = 512;

using moe::Lane;

// Greater for the better expert: by the logit, then by the lower number. All
// keys differ, even those of not-a-numbers.
__device__ uint64_t RankKey(float logit, int expert) {
  return uint64_t{moe::OrderedLogit(logit)} << 32 |
         (0xfffffffeu - static_cast<uint32_t>(expert));
}
// A row's experts and weights. Softmax over all experts, then division by the
// chosen ones' sum, is the softmax over the chosen logits. Each block takes one
// row and compares every expert with every other.
__global__ void __launch_bounds__(kThreads) RouteKernel(MoeTask t) {
  extern __shared__ uint64_t keys[];  // [E]
  constexpr int kMostOfThread = kMaxMoeExperts / kThreads;
  WaitForPrevious();
  StartNext();
  const int num_experts = t.experts.num_experts;
  const int row = static_cast<int>(blockIdx.x);
  if (row >= *t.rows.count) return;
  const int thread = static_cast<int>(threadIdx.x);
  const float* logits =
      t.scratch.logits + static_cast<int64_t>(row) * (num_experts + 1);
  for (int e = thread; e < num_experts; e += kThreads) {
    keys[e] = RankKey(logits[e], e);
  }
  __syncthreads();
  int rank[kMostOfThread];  // Ranks of this thread's experts.
#pragma unroll 1
  for (int i = 0; i * kThreads + thread < num_experts; ++i) {
    const uint64_t key = keys[i * kThreads + thread];
    int better = 0;
#pragma unroll 8
    for (int e = 0; e < num_experts; ++e) better += keys[e] > key ? 1 : 0;
    rank[i] = better;
  }
  __syncthreads();

  // The chosen experts by rank, in the memory of the keys.
  const int num_chosen = t.experts_per_token;
  auto* chosen = reinterpret_cast<int32_t*>(keys);
  auto* chosen_logit = reinterpret_cast<float*>(chosen + num_chosen);
  for (int i = 0; i * kThreads + thread < num_experts; ++i) {
    if (rank[i] >= num_chosen) continue;
    const int e = i * kThreads + thread;
    chosen[rank[i]] = e;
    chosen_logit[rank[i]] = logits[e];
  }
  __syncthreads();
  int32_t* expert = t.scratch.expert + static_cast<int64_t>(row) * t.places();
  float* weight = t.scratch.weight + static_cast<int64_t>(row) * t.places();
  for (int r = thread; r < num_chosen; r += kThreads) {
    int place = 0;
    float sum = 0;
    for (int other = 0; other < num_chosen; ++other) {
      place += chosen[other] < chosen[r] ? 1 : 0;
      sum += expf(chosen_logit[other] - chosen_logit[0]);
    }
    expert[place] = chosen[r];
    weight[place] = expf(chosen_logit[r] - chosen_logit[0]) / sum;
  }
  if (thread != 0) return;
  expert[num_chosen] = num_experts;
  weight[num_chosen] = Sigmoid(logits[num_experts]);
}

// The numbers of entries and of nonempty groups that come before.
struct Before {
  int entries;
  int groups;
};

// Returns the sums over all threads before this one; `total` becomes the sums
// over all threads.
__device__ Before SumBefore(Before own, Before& total) {
  __shared__ Before warps[kGroupThreads / 32];
  Before through = own;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int entries = __shfl_up_sync(0xffffffffu, through.entries, offset);
    const int groups = __shfl_up_sync(0xffffffffu, through.groups, offset);
    if (Lane() < offset) continue;
    through.entries += entries;
    through.groups += groups;
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (Lane() == 31) warps[warp] = through;
  __syncthreads();
  Before sum = {through.entries - own.entries, through.groups - own.groups};
  total = {0, 0};
  for (int w = 0; w < kGroupThreads / 32; ++w) {
    total.entries += warps[w].entries;
    total.groups += warps[w].groups;
    if (w != warp - 1) continue;
    sum.entries += total.entries;
    sum.groups += total.groups;
  }
  return sum;
}

// Writes the groups, from the experts' counts; `cursor` becomes where each
// begins. A thread takes neighbouring experts. The shared expert, number E, has
// the most rows and so comes first in the list; its entries come last.
__device__ void WriteGroups(const MoeTask& t, int num_rows,
                            const int32_t* count, int32_t* cursor) {
  const int num_experts = t.experts.num_experts;
  const int each = (num_experts + kGroupThreads - 1) / kGroupThreads;
  const int begin = min(static_cast<int>(threadIdx.x) * each, num_experts);
  const int end = min(begin + each, num_experts);
  Before own = {0, 0};
  for (int e = begin; e < end; ++e) {
    own.entries += count[e];
    own.groups += count[e] > 0 ? 1 : 0;
  }
  Before total;
  Before before = SumBefore(own, total);
  for (int e = begin; e < end; ++e) {
    cursor[e] = before.entries;
    if (count[e] == 0) continue;
    t.scratch.group[++before.groups] = {
        .expert = e, .first = before.entries, .count = count[e]};
    before.entries += count[e];
  }
  if (threadIdx.x != 0) return;
  t.scratch.group[0] = {
      .expert = num_experts, .first = total.entries, .count = num_rows};
  *t.scratch.num_groups = total.groups + 1;
}

// Sorts the entries by expert. Those of one expert come in no fixed order,
// which does not change results: each is computed by itself. Runs as one block.
__global__ void __launch_bounds__(kGroupThreads) GroupKernel(MoeTask t) {
  WaitForPrevious();
  StartNext();
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
  WriteGroups(t, num_rows, count, cursor);
  __syncthreads();

  for (int i = threadIdx.x; i < chosen; i += kGroupThreads) {
    const int entry = entry_of(i);
    t.scratch.entry[atomicAdd(&cursor[t.scratch.expert[entry]], 1)] = entry;
  }
  for (int row = threadIdx.x; row < num_rows; row += kGroupThreads) {
    t.scratch.entry[chosen + row] = row * t.places() + t.experts_per_token;
  }
}

}  // namespace

absl::Status LaunchMoeRouting(const MoeTask& task, const Launch& on) {
  const auto num_experts = static_cast<size_t>(task.experts.num_experts);
  const absl::Status status = LaunchDependent(
      "Moe, routing", RouteKernel,
      {.grid = static_cast<unsigned>(task.rows.max),
       .block = kThreads,
       // The compiler reads keys in pairs, so their number is even.
       .shared_bytes = (num_experts + 1) / 2 * 2 * sizeof(uint64_t)},
      on, task);
  if (!status.ok()) return status;
  return LaunchDependent("Moe, groups", GroupKernel,
                         {.grid = 1,
                          .block = kGroupThreads,
                          .shared_bytes = 2 * sizeof(int32_t) * num_experts},
                         on, task);
}

}  // namespace bole::cuda
