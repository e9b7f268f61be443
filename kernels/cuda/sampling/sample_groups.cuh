// What a draw needs to know about a row of logits, group by group. Each warp
// scans the kGroupTokens logits of a group once, while they are in its
// registers.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_GROUPS_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_GROUPS_CUH_

#include <cstddef>
#include <cstdint>

#include "common/gumbel.h"
#include "kernels/cuda/ranks/exchange.cuh"
#include "kernels/cuda/sampling/adjusted_logits.cuh"
#include "kernels/cuda/sampling/block_ops.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/token_filter.cuh"
#include "kernels/cuda/sampling/token_order.cuh"

namespace bole::cuda {

// The results of rows and all their groups, in device memory.
struct GroupResults {
  double* sum;      // [N, G] of exp((logit - best) / temperature), where top-p
                    // needs it.
  Rank* best;       // [N, G] the largest logit, or kNotNumbers.
  Rank* candidate;  // [N, G] the logit with the best score, noise included,
                    // where any of the group may be drawn; or kNoRank.
  int num_groups;   // G

  static constexpr size_t Bytes(int64_t rows, int num_groups) {
    return rows * num_groups * (sizeof(double) + 2 * sizeof(Rank));
  }
  __host__ __device__ static GroupResults In(void* memory, int64_t rows,
                                             int num_groups) {
    auto* const sum = static_cast<double*>(memory);
    auto* const best = reinterpret_cast<Rank*>(sum + rows * num_groups);
    return {sum, best, best + rows * num_groups, num_groups};
  }
};

// Sends the results of a warp's group of a row to all ranks. The destinations
// are computed only when the results are known, because registers are scarce
// until then.
template <int kRanks>
class GroupSender {
 public:
  // The results have `rows` rows.
  __device__ GroupSender(const Exchange<kRanks>& x, int rows, int num_groups)
      : x_(x), rows_(rows), num_groups_(num_groups), call_(NumberOf(x)) {}

  // Calls tell(results, place) for each rank, in a lane of its own.
  template <typename F>
  __device__ void Tell(int row, int group, const F& tell) const {
    const int to = threadIdx.x % 32;
    if (to >= x_.count()) return;
    tell(GroupResults::In(ResultsOn(x_, to, call_), rows_, num_groups_),
         static_cast<int64_t>(row) * num_groups_ + group);
  }

 private:
  const Exchange<kRanks>& x_;
  const int rows_;
  const int num_groups_;
  const uint64_t call_;
};

// How a row's token is drawn.
enum class DrawKind {
  kGreedy,
  kFromAll,   // From all tokens; then whether top-p and min-p keep it.
  kFromBest,  // From a short list of the best.
  kFiltered,  // By a search through the whole row: top-k of many.
};
inline constexpr int kMaxListedTopK = 256;

__device__ inline DrawKind KindOf(const SamplingControl& control,
                                  int num_tokens) {
  if (control.temperature == 0) return DrawKind::kGreedy;
  if (control.top_k <= 0 || control.top_k >= num_tokens) {
    return DrawKind::kFromAll;
  }
  return control.top_k <= kMaxListedTopK ? DrawKind::kFromBest
                                         : DrawKind::kFiltered;
}

// Scores of one row's tokens: the largest is drawn.
struct Scorer {
  uint64_t seed;
  uint64_t position;
  float max;  // The largest logit of the row or of a part of it.
  float temperature;

  __device__ __noinline__ float Score(int32_t token, float logit) const {
    return (logit - max) / temperature + GumbelNoise(seed, position, token);
  }
};

// An upper bound of GumbelFromBits(), up to kBoundError, that is cheaper. For a
// uniform u the noise is -log(-log(1 - u)), and -log(1 - u) >= u.
inline constexpr float kBoundError = 1e-3f;
__device__ inline float NoiseBound(uint32_t bits) {
  constexpr float kLog2 = 0.69314718f;
  return kLog2 * (32 - __log2f(static_cast<float>(bits) + 0.5f));
}

// The inverse is finite, so that 0 times it is 0.
__device__ inline float InverseOf(float temperature) {
  return fminf(1 / temperature, FLT_MAX);
}

// The group's logit with the best score, in all lanes; kNoRank if no token is
// possible. `best` is the largest logit. A token's exact score is computed only
// where a bound says that it may be the best.
__device__ inline Rank FindCandidate(int group,
                                     const float (&logit)[kThreadTokens],
                                     float best, const Scorer& scorer) {
  if (!(best > Impossible())) return kNoRank;
  const float scale = InverseOf(scorer.temperature);
  float bound[kThreadTokens];
  int own = 0;
  float own_logit = logit[0];
  float own_bound = Impossible();
#pragma unroll
  for (int i = 0; i < kThreadTokens; i += kNoiseBlock) {
    const PhiloxCounter bits = NoiseBits(scorer.seed, scorer.position,
                                         TokenAt(group, i) / kNoiseBlock);
#pragma unroll
    for (int j = 0; j < kNoiseBlock; ++j) {
      bound[i + j] = (logit[i + j] - best) * scale + NoiseBound(bits.word[j]);
      if (!(bound[i + j] > own_bound)) continue;
      own = i + j;
      own_logit = logit[i + j];
      own_bound = bound[i + j];
    }
  }
  float score = Impossible();
  if (own_bound > Impossible()) {
    score = scorer.Score(TokenAt(group, own), own_logit);
  }
  Rank own_rank = RankOf(score, TokenAt(group, own));
  const float reached =
      FloatOfKey(__reduce_max_sync(kAllLanes, OrderedKey(score)));
#pragma unroll
  for (int i = 0; i < kThreadTokens; ++i) {
    if (i == own || !(bound[i] + kBoundError >= reached)) continue;
    score = scorer.Score(TokenAt(group, i), logit[i]);
    const Rank rank = RankOf(score, TokenAt(group, i));
    if (rank <= own_rank) continue;
    own_rank = rank;
    own_logit = logit[i];
  }
  const Rank winner = WarpMax(own_rank);
  const int lane = __ffs(__ballot_sync(kAllLanes, winner == own_rank)) - 1;
  return RankOf(__shfl_sync(kAllLanes, own_logit, lane), TokenOf(winner));
}

// The parameters of a row's draw.
struct DrawnRow {
  int row;  // The index of its results.
  SamplingControl control;
  uint64_t next_position;  // Determines the noise of the draw.
  int num_tokens;
};

// Finds the results of one group, by a warp that has its logits. has_nan:
// whether any of this lane's was NaN before they were cleaned.
template <int kRanks>
__device__ void ScanGroup(const DrawnRow& drawn, int group,
                          const float (&logit)[kThreadTokens], bool has_nan,
                          const GroupSender<kRanks>& sender) {
  const Rank best = WarpMax(LaneBest(group, logit, drawn.num_tokens));
  const bool is_bad = __any_sync(kAllLanes, has_nan) != 0;
  sender.Tell(drawn.row, group, [&](const GroupResults& to, int64_t place) {
    to.best[place] = is_bad ? kNotNumbers : best;
  });
  const SamplingControl& control = drawn.control;
  if (KindOf(control, drawn.num_tokens) != DrawKind::kFromAll) return;
  const float max = ValueOf(best);
  const Rank candidate = FindCandidate(group, logit, max,
                                       {.seed = control.seed,
                                        .position = drawn.next_position,
                                        .max = max,
                                        .temperature = control.temperature});
  sender.Tell(drawn.row, group, [&](const GroupResults& to, int64_t place) {
    to.candidate[place] = candidate;
  });
  if (control.top_p >= 1 || candidate == kNoRank) return;
  const float scale = InverseOf(control.temperature);
  float sum[4] = {};
#pragma unroll
  for (int i = 0; i < kThreadTokens; ++i) {
    sum[i % 4] += __expf((logit[i] - max) * scale);
  }
  const double total = WarpSum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  sender.Tell(drawn.row, group, [&](const GroupResults& to, int64_t place) {
    to.sum[place] = total;
  });
}

// Calls f(group) for the groups whose best rank is `least` or more, each in one
// warp of a block of kThreads. best: [G] of a row.
template <int kThreads, typename F>
__device__ void ForEachGroup(const Rank* best, int num_groups, Rank least,
                             const F& f) {
  for (int first = threadIdx.x / 32 * 32; first < num_groups;
       first += kThreads) {
    const int own = first + static_cast<int>(threadIdx.x % 32);
    unsigned left =
        __ballot_sync(kAllLanes, own < num_groups && best[own] >= least);
    for (; left != 0; left &= left - 1) f(first + __ffs(left) - 1);
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_GROUPS_CUH_
