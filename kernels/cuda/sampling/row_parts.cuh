// Rows of logits are divided into parts, each for a block of its own. The
// result of a part does not depend on how many rows or blocks there are.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_ROW_PARTS_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_ROW_PARTS_CUH_

#include <cstdint>

#include "kernels/cuda/sampling/cut_logits.h"
#include "kernels/cuda/sampling/token_order.cuh"
#include "kernels/sampling.h"

namespace bole::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

inline constexpr int kPartThreads = 256;
inline constexpr int kThreadTokens = 16;  // A thread's tokens, in registers.
inline constexpr int kPartTokens = kPartThreads * kThreadTokens;
inline constexpr int kPartWarps = kPartThreads / 32;
// A group is the tokens of one warp, which are consecutive.
inline constexpr int kGroupTokens = 32 * kThreadTokens;
static_assert(kGroupTokens == kHeadGroupTokens);
// A warp merges a row's parts; each lane takes up to this many.
inline constexpr int kMaxPartsPerLane = 8;
inline constexpr int kMaxParts = 32 * kMaxPartsPerLane;

__host__ __device__ constexpr int NumParts(int num_tokens) {
  return (num_tokens + kPartTokens - 1) / kPartTokens;
}
__host__ __device__ constexpr int NumGroups(int num_tokens) {
  return (num_tokens + kGroupTokens - 1) / kGroupTokens;
}

// The group of this warp in a part.
__device__ inline int GroupOf(int part) {
  return part * kPartWarps + static_cast<int>(threadIdx.x / 32);
}

// The token of the i-th of a lane's logits, i < kThreadTokens: ascending, and
// four in a row.
__device__ inline int TokenAt(int group, int i) {
  const int lane = threadIdx.x % 32;
  return group * kGroupTokens + i / 4 * 128 + lane * 4 + i % 4;
}

// One row of logits, or the columns of it that a rank has.
struct LogitRow {
  const float* logits;
  int num_tokens;   // Valid ones.
  bool is_aligned;  // To 16 bytes.

  // A lane's logits of a group, clean; -inf beyond the end of the row. Returns
  // whether any of them was NaN.
  __device__ bool Load(int group, float (&logit)[kThreadTokens]) const {
    if (is_aligned && (group + 1) * kGroupTokens <= num_tokens) {
#pragma unroll
      for (int i = 0; i < kThreadTokens; i += 4) {
        const float4 four =
            *reinterpret_cast<const float4*>(logits + TokenAt(group, i));
        logit[i] = four.x;
        logit[i + 1] = four.y;
        logit[i + 2] = four.z;
        logit[i + 3] = four.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kThreadTokens; ++i) {
        const int v = TokenAt(group, i);
        logit[i] = v < num_tokens ? logits[v] : Impossible();
      }
    }
    bool has_nan = false;
#pragma unroll
    for (int i = 0; i < kThreadTokens; ++i) {
      has_nan |= logit[i] != logit[i];
      logit[i] = CleanLogit(logit[i]);
    }
    return has_nan;
  }
};

// Whether every row of a rank's logits [., columns] is aligned to 16 bytes.
inline bool IsAligned(const float* logits, int columns) {
  return columns % 4 == 0 && reinterpret_cast<uintptr_t>(logits) % 16 == 0;
}

// This rank's columns of a row, as tokens 0, 1, ...
template <int kRanks>
__device__ LogitRow OwnRow(const LogitParts<kRanks>& cut, int row,
                           int num_tokens, bool is_aligned) {
  const int rank = cut.ranks.rank();
  return {cut.part[rank] + static_cast<int64_t>(row) * cut.Columns(rank),
          cut.Valid(rank, num_tokens), is_aligned};
}

// One row of logits, whose groups are on one rank each.
template <int kRanks>
class CutRow {
 public:
  // is_aligned: whether the rows of all ranks whose logits are read are.
  __device__ CutRow(const LogitParts<kRanks>& cut, int row, int num_tokens,
                    bool is_aligned)
      : cut_(cut),
        row_(row),
        num_tokens_(num_tokens),
        is_aligned_(is_aligned) {}

  __device__ int num_tokens() const { return num_tokens_; }
  // The rank that has token v.
  __device__ int RankOf(int32_t v) const {
    int rank = 0;
    while (rank + 1 < cut_.ranks.count() && v >= cut_.first[rank + 1]) ++rank;
    return rank;
  }
  // The columns of a rank, indexed by their tokens among all columns.
  __device__ LogitRow PartOf(int rank) const {
    return {cut_.part[rank] + static_cast<int64_t>(row_) * cut_.Columns(rank) -
                cut_.first[rank],
            min(num_tokens_, cut_.first[rank + 1]), is_aligned_};
  }
  __device__ float operator[](int32_t v) const {
    return PartOf(RankOf(v)).logits[v];
  }
  // Does what LogitRow::Load() does.
  __device__ bool Load(int group, float (&logit)[kThreadTokens]) const {
    return PartOf(RankOf(group * kGroupTokens)).Load(group, logit);
  }

 private:
  const LogitParts<kRanks>& cut_;
  const int row_;
  const int num_tokens_;
  const bool is_aligned_;
};

// The best of a lane's logits.
__device__ inline Rank LaneBest(int group, const float (&logit)[kThreadTokens],
                                int num_tokens) {
  float best = logit[0];
  int own = 0;
#pragma unroll
  for (int i = 1; i < kThreadTokens; ++i) {
    if (logit[i] > best) own = i;
    best = fmaxf(best, logit[i]);
  }
  const int token = TokenAt(group, own);
  return token < num_tokens ? RankOf(best, token) : kNoRank;
}

// The best rank of a warp, in all lanes.
__device__ inline Rank WarpMax(Rank x) {
  const uint32_t high = static_cast<uint32_t>(x >> 32);
  const uint32_t best = __reduce_max_sync(kAllLanes, high);
  const uint32_t low = high == best ? static_cast<uint32_t>(x) : 0;
  return static_cast<Rank>(best) << 32 | __reduce_max_sync(kAllLanes, low);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_ROW_PARTS_CUH_
