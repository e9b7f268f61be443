// The k best tokens of a row of logits, and its log-softmax. One block for a
// row; it reads the row twice.
#ifndef BOLE_KERNELS_CUDA_BEST_TOKENS_CUH_
#define BOLE_KERNELS_CUDA_BEST_TOKENS_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/block_ops.cuh"
#include "kernels/cuda/token_order.cuh"

namespace bole::cuda {

// The log probabilities of one row. All are <= 0; -inf if no token is possible.
struct LogSoftmax {
  float max;
  double log_sum;  // Log of the sum of exp(logit - max), >= 0.

  __device__ float LogProb(float logit) const {
    const float clean = CleanLogit(logit);
    if (clean == Impossible()) return clean;
    return static_cast<float>(static_cast<double>(clean) - max - log_sum);
  }
};

template <int kThreads, int kMaxK>
class BestTokens {
 public:
  struct Shared {
    Rank rank[kThreads / 32];
    double sum[kThreads / 32];
    Rank best[kMaxK];
  };

  // Of dynamic shared memory, for `lists`.
  static constexpr size_t ListBytes(int k) {
    return static_cast<size_t>(k) * kThreads * sizeof(Rank);
  }

  // lists: [k, kThreads] shared. REQUIRES: 1 <= k <= min(kMaxK, count).
  // Synchronises.
  __device__ BestTokens(const float* logits, int count, int k, Rank* lists,
                        Shared& shared)
      : shared_(shared) {
    ListOwn(logits, count, k, lists);
    Merge(k, lists);
    softmax_.max = ValueOf(shared.best[0]);
    softmax_.log_sum = 0;
    if (softmax_.max == Impossible()) return;
    double sum = 0;
    ForEachLogit<kThreads>(logits, count, [&](int, float logit) {
      sum += expf(CleanLogit(logit) - softmax_.max);
    });
    softmax_.log_sum = log(BlockSum<kThreads>(sum, shared.sum));
  }

  __device__ int32_t token(int i) const { return TokenOf(shared_.best[i]); }
  __device__ float LogProb(int i) const {
    return softmax_.LogProb(ValueOf(shared_.best[i]));
  }
  __device__ const LogSoftmax& softmax() const { return softmax_; }

 private:
  // The best of the thread's own tokens, best first, kNoRank behind them.
  __device__ void ListOwn(const float* logits, int count, int k, Rank* lists) {
    Rank* own = lists + threadIdx.x;
    for (int i = 0; i < k; ++i) own[i * kThreads] = kNoRank;
    Rank worst = kNoRank;
    ForEachLogit<kThreads>(logits, count, [&](int v, float logit) {
      const Rank rank = RankOf(CleanLogit(logit), v);
      if (rank <= worst) return;
      int i = k - 1;
      for (; i > 0 && own[(i - 1) * kThreads] < rank; --i) {
        own[i * kThreads] = own[(i - 1) * kThreads];
      }
      own[i * kThreads] = rank;
      worst = own[(k - 1) * kThreads];
    });
  }

  // The best of all lists, k times: a list that gave one goes on to its next.
  __device__ void Merge(int k, const Rank* lists) {
    int next = 0;
    for (int i = 0; i < k; ++i) {
      const Rank own =
          next < k ? lists[next * kThreads + threadIdx.x] : kNoRank;
      const Rank best = BlockMax<kThreads>(own, shared_.rank);
      if (own == best) ++next;
      if (threadIdx.x == 0) shared_.best[i] = best;
    }
    __syncthreads();
  }

  Shared& shared_;
  LogSoftmax softmax_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_BEST_TOKENS_CUH_
