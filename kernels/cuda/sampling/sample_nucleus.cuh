// Draws with top-p and min-p, but without top-k. Both filters usually keep the
// token with the best score, which a sum over the likelier tokens shows. If
// they do not, they keep no less likely token either, and the likelier token
// with the best score is examined next.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_NUCLEUS_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_NUCLEUS_CUH_

#include <cstdint>

#include "kernels/cuda/sampling/adjusted_logits.cuh"
#include "kernels/cuda/sampling/block_ops.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/sample_groups.cuh"
#include "kernels/cuda/sampling/token_order.cuh"

namespace bole::cuda {

// All members are called by a whole block of kThreads, and synchronise it.
template <int kThreads, int kRanks>
class NucleusDraw {
 public:
  struct Shared {
    double sum[kThreads / 32];
    Rank rank[kThreads / 32];
  };

  // best, sum: [G] of the row. scorer.max: the largest logit, > -inf.
  __device__ NucleusDraw(const AdjustedLogits<kThreads, kRanks>& logits,
                         const Scorer& scorer, const Rank* best,
                         const double* sum, int num_groups, Shared& shared)
      : logits_(logits),
        scorer_(scorer),
        best_(best),
        num_groups_(num_groups),
        shared_(shared) {
    double own = 0;
    if (logits.control().top_p < 1) {
      for (int g = threadIdx.x; g < num_groups; g += kThreads) {
        const float max = ValueOf(best[g]);
        if (max > Impossible()) own += sum[g] * WeightOf(max);
      }
    }
    total_ = BlockSum<kThreads>(own, shared.sum);
  }

  // The token drawn. candidate: the logit with the best score of the row.
  __device__ int32_t Draw(Rank candidate) {
    while (!IsKept(candidate)) candidate = BestBefore(candidate);
    return TokenOf(candidate);
  }

 private:
  // The weight of a token, relative to the likeliest.
  __device__ __noinline__ double WeightOf(double logit) const {
    return exp((logit - scorer_.max) / scorer_.temperature);
  }
  __device__ bool IsHeavy(float logit) const {
    const float min_p = logits_.control().min_p;
    return min_p <= 0 || WeightOf(logit) >= min_p;
  }

  __device__ bool IsKept(Rank candidate) {
    if (!IsHeavy(ValueOf(candidate))) return false;
    const double top_p = logits_.control().top_p;
    if (top_p >= 1) return true;
    double own = 0;
    ForEachBefore(candidate, [&](int, float logit) { own += WeightOf(logit); });
    const double before = BlockSum<kThreads>(own, shared_.sum);
    return before == 0 || before < top_p * total_;
  }

  // The best score among the tokens that are likelier than `candidate` and that
  // min-p keeps. REQUIRES: there is such a token.
  __device__ Rank BestBefore(Rank candidate) {
    Rank own = kNoRank;
    float own_logit = 0;
    ForEachBefore(candidate, [&](int v, float logit) {
      if (!IsHeavy(logit)) return;
      const Rank rank = RankOf(scorer_.Score(v, logit), v);
      if (rank <= own) return;
      own = rank;
      own_logit = logit;
    });
    const Rank winner = BlockMax<kThreads>(own, shared_.rank);
    const Rank logit = winner == own && own != kNoRank
                           ? RankOf(own_logit, TokenOf(own))
                           : kNoRank;
    return BlockMax<kThreads>(logit, shared_.rank);
  }

  // Calls f(v, logit) for the tokens of larger rank, each in one thread.
  template <typename F>
  __device__ void ForEachBefore(Rank candidate, const F& f) const {
    ForEachGroup<kThreads>(best_, num_groups_, candidate + 1, [&](int group) {
      float logit[kThreadTokens];
      logits_.Load(group, logit);
#pragma unroll
      for (int i = 0; i < kThreadTokens; ++i) {
        const int v = TokenAt(group, i);
        if (RankOf(logit[i], v) > candidate) f(v, logit[i]);
      }
    });
  }

  const AdjustedLogits<kThreads, kRanks>& logits_;
  const Scorer& scorer_;
  const Rank* const best_;
  const int num_groups_;
  double total_;  // Weight of all tokens.
  Shared& shared_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_NUCLEUS_CUH_
