// Which experts the rows chose, worked out by a block of kStreamThreads
// from the logits: groups of rows in shared memory.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_CHOICE_CUH_
#define BOLE_KERNELS_CUDA_MOE_MOE_CHOICE_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/moe/moe_expert_choice.cuh"
#include "kernels/cuda/moe/moe_kernels.h"
#include "kernels/cuda/moe/moe_stream_block.cuh"
#include "kernels/cuda/moe/moe_streamed.h"

namespace bole::cuda::moe {

// Entries of one expert, `count` from `first` on.
struct StreamGroup {
  const BFloat16* weights;  // Gates and ups, or the down projection.
  int32_t first;
  int32_t count;  // 1 to kGroupEntries.
};

// What a block knows of the choice, in its shared memory. An entry is one row
// of one expert. Entries are in ascending order of experts, then of rows; the
// shared expert's are the last. Group 0 has the shared expert's first entries,
// the routed ones' groups follow, then its other ones.
class MoeChoice {
 public:
  // Bytes of shared memory, a multiple of 16.
  __host__ __device__ static int Bytes(const MoeTask& t) {
    return static_cast<int>(Part(t, 9));
  }

  // `memory`: Bytes(), aligned to 16.
  __device__ MoeChoice(const MoeTask& t, unsigned char* memory)
      : rows_of_(reinterpret_cast<unsigned long long*>(memory)),
        groups_(reinterpret_cast<StreamGroup*>(memory + Part(t, 1))),
        weight_(reinterpret_cast<float*>(memory + Part(t, 2))),
        first_of_(reinterpret_cast<int32_t*>(memory + Part(t, 3))),
        chosen_(reinterpret_cast<Chosen*>(memory + Part(t, 4))),
        totals_(reinterpret_cast<uint32_t*>(memory + Part(t, 5))),
        entry_(reinterpret_cast<uint16_t*>(memory + Part(t, 6))),
        row_(memory + Part(t, 7)),
        shared_weight_(reinterpret_cast<float*>(memory + Part(t, 8))) {}

  // By all threads, before anything is known: afterwards group 0 has its
  // weights. `weights`: [E + 1], as in MoeExperts.
  __device__ void Clear(const MoeTask& t, const void* const* weights) {
    const int num_experts = t.experts.num_experts;
    for (int i = threadIdx.x; i < kWords * num_experts; i += kStreamThreads) {
      rows_of_[i] = 0;
    }
    if (threadIdx.x == 0) {
      groups_[0].weights = static_cast<const BFloat16*>(weights[num_experts]);
    }
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      const int e = kOfThread * static_cast<int>(threadIdx.x) + i;
      weights_[i] =
          e < num_experts ? static_cast<const BFloat16*>(weights[e]) : nullptr;
    }
    __syncthreads();
  }

  // By all threads, once the logits can be read.
  __device__ void Find(const MoeTask& t, int num_rows) {
    for (int row = Warp(); row < num_rows; row += kStreamWarps) {
      ChooseOfRow(t, row);
    }
    __syncthreads();
    WriteGroups(t, num_rows);
    __syncthreads();
    WriteEntries(t, num_rows);
    __syncthreads();
  }

  // How many groups the routed experts have, and the shared one besides group
  // 0.
  __device__ int num_routed() const { return num_routed_; }
  __device__ int num_more() const { return num_more_; }
  __device__ const StreamGroup& group(int g) const { return groups_[g]; }
  __device__ int row(int entry) const { return row_[entry]; }
  __device__ float weight(int entry) const {
    return entry < num_chosen_ ? weight_[entry]
                               : shared_weight_[entry - num_chosen_];
  }
  // The entry of a row's expert number `place`, in ascending order.
  __device__ int entry(const MoeTask& t, int row, int place) const {
    return place < t.experts_per_token
               ? entry_[row * t.experts_per_token + place]
               : num_chosen_ + row;
  }

 private:
  // An expert's rows are bits of so many words.
  static constexpr int kWords = kMaxStreamedMoeRows / 64;
  // Each thread counts the rows of so many experts, which are neighbours.
  static constexpr int kOfThread =
      (kMaxStreamedMoeExperts + kStreamThreads - 1) / kStreamThreads;

  // Where a part of the memory begins.
  __host__ __device__ static int64_t Part(const MoeTask& t, int part) {
    const int64_t experts = t.experts.num_experts;
    const int64_t choices = int64_t{t.rows.max} * t.experts_per_token;
    const int64_t entries = int64_t{t.rows.max} * t.places();
    const int64_t groups = (choices < experts ? choices : experts) +
                           (choices + t.rows.max) / kGroupEntries + 1;
    const int64_t bytes[] = {
        8 * kWords * experts, 16 * groups, 4 * choices,
        4 * experts,          8 * choices, 4 * kStreamWarps,
        2 * choices,          entries,     4 * int64_t{t.rows.max}};
    int64_t begin = 0;
    for (int i = 0; i < part; ++i) begin += (bytes[i] + 15) / 16 * 16;
    return begin;
  }

  // By a warp.
  __device__ void ChooseOfRow(const MoeTask& t, int row) {
    const int num_experts = t.experts.num_experts;
    const float* logits =
        t.scratch.logits + static_cast<int64_t>(row) * (num_experts + 1);
    const float gate = __ldcg(logits + num_experts);
    constexpr int kMost = kMaxStreamedMoeExperts / 32;
    const Chosen own =
        num_experts <= kMaxStreamedMoeExperts / 2
            ? ChooseExpert<kMost / 2>(logits, num_experts, t.experts_per_token)
            : ChooseExpert<kMost>(logits, num_experts, t.experts_per_token);
    if (Lane() == 0) shared_weight_[row] = Sigmoid(gate);
    if (Lane() >= t.experts_per_token) return;
    chosen_[row * t.experts_per_token + Lane()] = own;
    atomicOr(&rows_of_[kWords * own.expert + row / 64], 1ull << row % 64);
  }

  // How many rows before `row` chose the expert.
  __device__ int RowsBefore(int expert, int row) const {
    int rows = 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int bits = min(max(row - 64 * i, 0), 64);
      const unsigned long long before = bits == 64 ? ~0ull : (1ull << bits) - 1;
      rows += __popcll(rows_of_[kWords * expert + i] & before);
    }
    return rows;
  }

  // Where each expert's entries begin.
  __device__ void WriteGroups(const MoeTask& t, int num_rows) {
    const int lane = Lane();
    const int warp = Warp();
    int count[kOfThread];
    uint32_t own = 0;  // Counts entries, and in its upper half groups.
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      const int e = kOfThread * static_cast<int>(threadIdx.x) + i;
      count[i] =
          e < t.experts.num_experts ? RowsBefore(e, kMaxStreamedMoeRows) : 0;
      own += static_cast<uint32_t>(count[i]) +
             (static_cast<uint32_t>(GroupsFor(count[i])) << 16);
    }
    uint32_t through = own;
    for (int offset = 1; offset < 32; offset *= 2) {
      const uint32_t other = __shfl_up_sync(kAllLanes, through, offset);
      if (lane >= offset) through += other;
    }
    if (lane == 31) totals_[warp] = through;
    __syncthreads();
    uint32_t before = through - own;
    uint32_t total = 0;
#pragma unroll
    for (int w = 0; w < kStreamWarps; ++w) {
      if (w < warp) before += totals_[w];
      total += totals_[w];
    }
    int first = static_cast<int>(before & 0xffffu);
    int group = static_cast<int>(before >> 16) + 1;
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      if (count[i] == 0) continue;
      first_of_[kOfThread * static_cast<int>(threadIdx.x) + i] = first;
      for (int begin = 0; begin < count[i]; begin += kGroupEntries) {
        groups_[group++] = {weights_[i], first + begin,
                            min(kGroupEntries, count[i] - begin)};
      }
      first += count[i];
    }
    num_routed_ = static_cast<int>(total >> 16);
    num_more_ = GroupsFor(num_rows) - 1;
    num_chosen_ = static_cast<int>(total & 0xffffu);
    if (threadIdx.x != 0) return;
    for (int begin = 0; begin < num_rows; begin += kGroupEntries) {
      groups_[begin == 0 ? 0 : num_routed_ + begin / kGroupEntries] = {
          groups_[0].weights, num_chosen_ + begin,
          min(kGroupEntries, num_rows - begin)};
    }
  }
  __device__ static int GroupsFor(int entries) {
    return (entries + kGroupEntries - 1) / kGroupEntries;
  }

  __device__ void WriteEntries(const MoeTask& t, int num_rows) {
    for (int i = threadIdx.x; i < num_rows * t.experts_per_token;
         i += kStreamThreads) {
      const int row = i / t.experts_per_token;
      const Chosen chosen = chosen_[i];
      const int entry =
          first_of_[chosen.expert] + RowsBefore(chosen.expert, row);
      row_[entry] = static_cast<unsigned char>(row);
      weight_[entry] = chosen.weight;
      const int first_choice = row * t.experts_per_token;
      int place = 0;
      for (int k = 0; k < t.experts_per_token; ++k) {
        if (chosen_[first_choice + k].expert < chosen.expert) ++place;
      }
      entry_[first_choice + place] = static_cast<uint16_t>(entry);
    }
    for (int row = threadIdx.x; row < num_rows; row += kStreamThreads) {
      row_[num_chosen_ + row] = static_cast<unsigned char>(row);
    }
  }

  unsigned long long* rows_of_;  // [E, kWords], a bit for each row.
  StreamGroup* groups_;
  float* weight_;         // [N K], of entries.
  int32_t* first_of_;     // [E]
  Chosen* chosen_;        // [N, K]
  uint32_t* totals_;      // [kStreamWarps]
  uint16_t* entry_;       // [N, K]
  unsigned char* row_;    // [entries]
  float* shared_weight_;  // [N]
  const BFloat16* weights_[kOfThread];
  int num_routed_ = 0;
  int num_more_ = 0;
  int num_chosen_ = 0;
};

}  // namespace bole::cuda::moe

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_CHOICE_CUH_
