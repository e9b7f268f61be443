// The k best tokens of a row of logits and its log-softmax, in two steps: a
// block for each part of the row, then a block for the row.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_ROW_BEST_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_ROW_BEST_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/sampling/block_ops.cuh"
#include "kernels/cuda/sampling/part_results.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/token_order.cuh"

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

template <int kMaxK>
struct PartShared {
  // The best lanes of each warp, then all ranks of the block that may be among
  // the k best.
  Rank lane_best[kPartWarps][kMaxK];
  Rank listed[kMaxK * kThreadTokens];
  float max[kPartWarps];
  double sum[kPartWarps];
  Rank least;
  int num_listed;
};

// Writes the k largest of a warp's ranks in order.
__device__ inline void SortBest(Rank own, int k, Rank* out) {
  for (int i = 0; i < k; ++i) {
    const Rank best = WarpMax(own);
    if (own == best) own = kNoRank;
    if (threadIdx.x % 32 == 0) out[i] = best;
  }
}

// The k-th largest of kPartWarps sorted lists of k, by one warp.
template <int kMaxK>
__device__ Rank KthOfLists(const PartShared<kMaxK>& shared, int k) {
  const int lane = threadIdx.x % 32;
  int next = 0;
  Rank best = kNoRank;
  for (int i = 0; i < k; ++i) {
    const Rank own =
        lane < kPartWarps && next < k ? shared.lane_best[lane][next] : kNoRank;
    best = WarpMax(own);
    if (own == best) ++next;
  }
  return best;
}

// Finds the k best of a part, and calls tell(place, rank) for each in one
// thread. The rank of the block's k-th best lane is a lower bound of the k best
// ranks that few others reach. Called by a block that has the logits in its
// threads' registers. Synchronises.
template <int kMaxK, typename F>
__device__ void FindBest(const LogitRow& row, int group,
                         const float (&logit)[kThreadTokens], int k,
                         PartShared<kMaxK>& shared, const F& tell) {
  const int warp = threadIdx.x / 32;
  const Rank own_best = LaneBest(group, logit, row.num_tokens);
  SortBest(own_best, k, shared.lane_best[warp]);
  if (threadIdx.x == 0) shared.num_listed = 0;
  __syncthreads();
  if (warp == 0) {
    const Rank least = KthOfLists(shared, k);
    if (threadIdx.x == 0) shared.least = max(least, kNoRank + 1);
  }
  __syncthreads();
  const Rank least = shared.least;
  if (own_best >= least) {
#pragma unroll
    for (int i = 0; i < kThreadTokens; ++i) {
      const int token = TokenAt(group, i);
      const Rank rank = RankOf(logit[i], token);
      if (rank < least || token >= row.num_tokens) continue;
      shared.listed[atomicAdd(&shared.num_listed, 1)] = rank;
    }
  }
  __syncthreads();
  // The place of each one is the number of better ones.
  const int count = shared.num_listed;
  for (int i = threadIdx.x; i < count; i += kPartThreads) {
    int place = 0;
    for (int j = 0; j < count; ++j) {
      place += shared.listed[j] > shared.listed[i] ? 1 : 0;
    }
    if (place < k) tell(place, shared.listed[i]);
  }
  for (int i = count + static_cast<int>(threadIdx.x); i < k;
       i += kPartThreads) {
    tell(i, kNoRank);
  }
}

// Processes part `part` of the rank's `row` by a block of kPartThreads that has
// loaded its groups, and sends the results as those of row `out_row`. k may be
// 0. Synchronises.
template <int kMaxK, int kRanks>
__device__ void FindPartBest(const LogitRow& row, int part,
                             const float (&logit)[kThreadTokens], int k,
                             const PartSender<kRanks>& sender, int out_row,
                             PartShared<kMaxK>& shared) {
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int group = GroupOf(part);
  float max = Impossible();
#pragma unroll
  for (int i = 0; i < kThreadTokens; ++i) max = fmaxf(max, logit[i]);
  max = FloatOfKey(__reduce_max_sync(kAllLanes, OrderedKey(max)));
  if (lane == 0) shared.max[warp] = max;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kPartWarps; ++w) max = fmaxf(max, shared.max[w]);
  float own[4] = {};  // Four sums accumulate smaller errors.
  if (max > Impossible()) {
#pragma unroll
    for (int i = 0; i < kThreadTokens; ++i) {
      own[i % 4] += __expf(logit[i] - max);
    }
  }
  const double sum = WarpSum((own[0] + own[1]) + (own[2] + own[3]));
  if (lane == 0) shared.sum[warp] = sum;
  const int whole_part = sender.cut().first_part + part;
  if (k > 0) {
    FindBest(row, group, logit, k, shared, [&](int place, Rank rank) {
      for (int r = 0; r < sender.num_ranks(); ++r) {
        sender.On(r).RanksOf(out_row, whole_part, k)[place] =
            sender.Whole(rank);
      }
    });
  }
  __syncthreads();
  const int to = static_cast<int>(threadIdx.x);
  if (to >= sender.num_ranks()) return;
  double total = 0;
  for (int w = 0; w < kPartWarps; ++w) total += shared.sum[w];
  const PartResults results = sender.On(to);
  const int64_t out =
      static_cast<int64_t>(out_row) * results.num_parts + whole_part;
  results.sum[out] = total;
  results.max[out] = max;
}

// Merges the results of a row's parts, by one warp.
class RowBest {
 public:
  // The bytes of shared memory that `shared` needs.
  static constexpr size_t SharedBytes(int num_parts, int max_k) {
    return static_cast<size_t>(num_parts + 1) * max_k * sizeof(Rank);
  }

  __device__ RowBest(const PartResults& results, int row, int k, Rank* shared)
      : best_(shared) {
    const int64_t first = static_cast<int64_t>(row) * results.num_parts;
    const Rank* rank = results.RanksOf(row, 0, k);
    Rank* const lists = shared + k;
#pragma unroll 8
    for (int i = threadIdx.x % 32; i < results.num_parts * k; i += 32) {
      lists[i] = rank[i];
    }
    FindSoftmax(results.max + first, results.sum + first, results.num_parts);
    __syncwarp();
    if (results.num_parts <= 64) {
      Merge<2>(lists, results.num_parts, k);
    } else {
      Merge<kMaxPartsPerLane>(lists, results.num_parts, k);
    }
    __syncwarp();
  }

  __device__ const LogSoftmax& softmax() const { return softmax_; }
  __device__ Rank best(int i) const { return best_[i]; }

 private:
  __device__ void FindSoftmax(const float* max, const double* sum, int count) {
    const int lane = threadIdx.x % 32;
    float most = Impossible();
    for (int i = lane; i < count; i += 32) most = fmaxf(most, max[i]);
    most = FloatOfKey(__reduce_max_sync(kAllLanes, OrderedKey(most)));
    softmax_ = {most, 0};
    if (most == Impossible()) return;
    double own = 0;
    for (int i = lane; i < count; i += 32) {
      own += sum[i] * expf(max[i] - most);
    }
    softmax_.log_sum = log(WarpSum(own));
  }

  // Takes the best one of those left in all parts, k times.
  template <int kLists>
  __device__ void Merge(const Rank* lists, int num_parts, int k) {
    const int lane = threadIdx.x % 32;
    int next[kLists] = {};
    for (int i = 0; i < k; ++i) {
      Rank own = kNoRank;
#pragma unroll
      for (int l = 0; l < kLists; ++l) {
        const int part = 32 * l + lane;
        if (part < num_parts) own = max(own, lists[part * k + next[l]]);
      }
      const Rank first = WarpMax(own);
      if (lane == 0) best_[i] = first;
#pragma unroll
      for (int l = 0; l < kLists; ++l) {
        const int part = 32 * l + lane;
        if (part >= num_parts || next[l] + 1 == k) continue;
        if (lists[part * k + next[l]] == first) ++next[l];
      }
    }
  }

  Rank* const best_;  // [k]
  LogSoftmax softmax_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_ROW_BEST_CUH_
