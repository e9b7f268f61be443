// Draws with top-k of few tokens. These tokens are in the groups with the k
// largest maxima, from which a short list is made and sorted. Then top-k, top-p
// and min-p each keep a prefix of the list.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_BEST_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_BEST_CUH_

#include <cstdint>

#include "kernels/cuda/sampling/adjusted_logits.cuh"
#include "kernels/cuda/sampling/block_ops.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/sample_groups.cuh"
#include "kernels/cuda/sampling/token_order.cuh"

namespace bole::cuda {

// All members are called by a whole block of kThreads, and synchronise it.
template <int kThreads, int kRanks>
class BestDraw {
 public:
  static constexpr int kMaxListed = 4 * kThreads;
  struct Shared {
    // Complements of ranks, so that the best are first when they ascend.
    uint64_t list[kMaxListed];
    double sum[kThreads / 32];
    Rank rank[kThreads / 32];
    int count;
  };

  // best: [G] of the row. scorer.max: the largest logit, > -inf.
  __device__ BestDraw(const AdjustedLogits<kThreads, kRanks>& logits,
                      const Scorer& scorer, const Rank* best, int num_groups,
                      Shared& shared)
      : logits_(logits),
        scorer_(scorer),
        best_(best),
        num_groups_(num_groups),
        shared_(shared) {}

  // Makes the list. Returns whether it has all of the k best tokens, and their
  // equals.
  __device__ bool List() {
    const int k = logits_.control().top_k;
    uint32_t least = OrderedKey(-FLT_MAX);  // Impossible tokens are below.
    if (logits_.num_tokens() > kMaxListed) {
      if (num_groups_ < k || num_groups_ > kMaxListed) return false;
      SortGroups();
      least = max(least, KeyAt(k - 1));
      __syncthreads();
    }
    if (threadIdx.x == 0) shared_.count = 0;
    __syncthreads();
    Collect(least);
    __syncthreads();
    count_ = shared_.count;
    if (count_ > kMaxListed) return false;
    Sort(count_);
    if (count_ > k) KeepTopK(k);
    return true;
  }

  // Called after List().
  __device__ int32_t Draw() {
    constexpr int kOwn = kMaxListed / kThreads;
    const SamplingControl& control = logits_.control();
    double weight[kOwn];
    double own = 0;
    const int first = threadIdx.x * kOwn;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      weight[i] = first + i < count_ ? WeightOf(LogitAt(first + i)) : 0;
      own += weight[i];
    }
    const double total = BlockSum<kThreads>(own, shared_.sum);
    double before = BlockSumBefore<kThreads>(own, shared_.sum);
    Rank best = kNoRank;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const bool is_likely = control.top_p >= 1 || first + i == 0 ||
                             before < double{control.top_p} * total;
      before += weight[i];
      if (first + i >= count_ || !is_likely) continue;
      if (control.min_p > 0 && weight[i] < double{control.min_p}) continue;
      const int32_t token = TokenOf(~shared_.list[first + i]);
      best = max(best, RankOf(scorer_.Score(token, LogitAt(first + i)), token));
    }
    return TokenOf(BlockMax<kThreads>(best, shared_.rank));
  }

 private:
  // The weight of a token, relative to the likeliest.
  __device__ double WeightOf(double logit) const {
    return exp((logit - scorer_.max) / scorer_.temperature);
  }
  __device__ uint32_t KeyAt(int i) const {
    return static_cast<uint32_t>(~shared_.list[i] >> 32);
  }
  __device__ float LogitAt(int i) const { return FloatOfKey(KeyAt(i)); }

  __device__ void SortGroups() {
    for (int g = threadIdx.x; g < num_groups_; g += kThreads) {
      shared_.list[g] = ~best_[g];
    }
    Sort(num_groups_);
  }

  __device__ void Sort(int count) {
    int size = 1;
    while (size < count) size *= 2;
    for (int i = count + static_cast<int>(threadIdx.x); i < size;
         i += kThreads) {
      shared_.list[i] = ~kNoRank;
    }
    SortShared(shared_.list, size);
  }

  // Lists the tokens at or above a key, in any order, and counts them.
  __device__ void Collect(uint32_t least) {
    const Rank least_rank = static_cast<Rank>(least) << 32;
    ForEachGroup<kThreads>(best_, num_groups_, least_rank, [&](int group) {
      float logit[kThreadTokens];
      logits_.Load(group, logit);
#pragma unroll
      for (int i = 0; i < kThreadTokens; ++i) {
        if (OrderedKey(logit[i]) < least) continue;
        const int place = atomicAdd(&shared_.count, 1);
        if (place < kMaxListed) {
          shared_.list[place] = ~RankOf(logit[i], TokenAt(group, i));
        }
      }
    });
  }

  // Ties at the k-th value are kept.
  __device__ void KeepTopK(int k) {
    const uint32_t least = KeyAt(k - 1);
    int kept = 0;
    for (int first = 0; first < count_; first += kThreads) {
      const int i = first + static_cast<int>(threadIdx.x);
      kept += __syncthreads_count(i < count_ && KeyAt(i) >= least);
    }
    count_ = kept;
  }

  const AdjustedLogits<kThreads, kRanks>& logits_;
  const Scorer& scorer_;
  const Rank* const best_;
  const int num_groups_;
  int count_ = 0;
  Shared& shared_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_SAMPLE_BEST_CUH_
