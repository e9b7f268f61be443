// The experts of every row, and the rows of every expert.
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/moe_kernels.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kGroupThreads = 512;

__device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }

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

// The keys of a row's logits: those of the first experts in registers.
class RowKeys {
 public:
  __device__ RowKeys(const float* logits, int num_experts)
      : logits_(logits), num_experts_(num_experts) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int e = 32 * i + Lane();
      held_[i] = e < num_experts ? RankKey(logits[e], e) : 0;
    }
  }

  // The greatest below `bound`, in every lane.
  __device__ uint64_t BestBelow(uint64_t bound) const {
    uint64_t best = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) Take(held_[i], bound, best);
    for (int e = 32 * kHeld + Lane(); e < num_experts_; e += 32) {
      Take(RankKey(logits_[e], e), bound, best);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      const uint64_t other = __shfl_xor_sync(0xffffffffu, best, offset);
      if (other > best) best = other;
    }
    return best;
  }

 private:
  static constexpr int kHeld = 16;

  __device__ static void Take(uint64_t key, uint64_t bound, uint64_t& best) {
    if (key < bound && key > best) best = key;
  }

  const float* logits_;
  int num_experts_;
  uint64_t held_[kHeld];
};

// A row's experts and weights. Softmax over all experts, then division by the
// chosen ones' sum, is the softmax over the chosen logits. A warp for each row.
__global__ void __launch_bounds__(kThreads) RouteKernel(MoeTask t) {
  WaitForPrevious();
  StartNext();
  const int num_experts = t.experts.num_experts;
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) / 32;
  if (row >= *t.rows.count) return;
  const float* logits =
      t.scratch.logits + static_cast<int64_t>(row) * (num_experts + 1);
  const RowKeys keys(logits, num_experts);
  uint64_t bound = ~uint64_t{0};
  float max = 0;
  float sum = 0;
  for (int i = 0; i < t.experts_per_token; ++i) {
    bound = keys.BestBelow(bound);
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

// How many entries, and how many groups that are not empty, lie before.
struct Before {
  int entries;
  int groups;
};

// The sums over all threads before this one, and over all in `total`.
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

// The groups, from the experts' counts; `cursor` is where each begins. A thread
// takes neighbouring experts. The shared one, number E, which has the most
// rows, begins the list; its entries are the last.
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

// Sorts the entries by expert. Those of one expert come in no order, which
// leaves no trace: each is computed for itself. One block.
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
  constexpr int kRows = kThreads / 32;
  const unsigned blocks = (task.rows.max + kRows - 1) / kRows;
  const absl::Status status =
      LaunchDependent("Moe, routing", RouteKernel,
                      {.grid = blocks, .block = kThreads}, on, task);
  if (!status.ok()) return status;
  const size_t bytes = 2 * sizeof(int32_t) * task.experts.num_experts;
  return LaunchDependent(
      "Moe, groups", GroupKernel,
      {.grid = 1, .block = kGroupThreads, .shared_bytes = bytes}, on, task);
}

}  // namespace bole::cuda
