// The tokens of a row that may be drawn: top-k, then top-p, then min-p. Nothing
// is sorted: a threshold is found digit by digit, from sums over the tokens
// with each value of the next digit.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_TOKEN_FILTER_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_TOKEN_FILTER_CUH_

#include <cstdint>

#include "kernels/cuda/sampling/adjusted_logits.cuh"
#include "kernels/cuda/sampling/block_ops.cuh"
#include "kernels/cuda/sampling/token_order.cuh"

namespace bole::cuda {

__device__ inline bool HasFilters(const SamplingControl& control) {
  return control.top_k > 0 || control.top_p < 1 || control.min_p > 0;
}

// All members are called by the whole block, and synchronise it.
template <int kThreads, int kRanks>
class TokenFilter {
 public:
  // Once there are at most this many candidates, they are copied to a list.
  static constexpr int kMaxListed = 2048;
  struct Shared {
    float logit[kMaxListed];
    int32_t token[kMaxListed];
    double bin[kThreads / 32][16];
    double sum[kThreads / 32];
    int count[kThreads / 32];
  };

  // `max` is the largest logit, > -inf. REQUIRES: temperature > 0.
  __device__ TokenFilter(const AdjustedLogits<kThreads, kRanks>& logits,
                         float max, Shared& shared)
      : logits_(logits),
        max_(max),
        temperature_(logits.control().temperature),
        least_key_(OrderedKey(-FLT_MAX)),
        shared_(shared) {
    const SamplingControl& control = logits.control();
    if (control.top_k > 0 && control.top_k < logits.num_tokens()) {
      KeepTopK(control.top_k);
    }
    if (control.top_p < 1) KeepTopP(control.top_p);
  }

  // Calls f(v, logit) for every token that may be drawn, each in one thread.
  template <typename F>
  __device__ void ForEach(const F& f) const {
    const double min_p = logits_.control().min_p;
    ForEachCandidate([&](int v, float logit) {
      const uint32_t key = OrderedKey(logit);
      if (key == least_key_ && v > last_tie_) return;
      if (min_p > 0 && WeightOf(logit) < min_p) return;
      f(v, logit);
    });
  }

 private:
  // The weight of a token, relative to the likeliest.
  __device__ double WeightOf(double logit) const {
    return exp((logit - max_) / temperature_);
  }

  // The tokens at or above least_key_.
  template <typename F>
  __device__ void ForEachCandidate(const F& f) const {
    if (is_listed_) {
      for (int i = threadIdx.x; i < num_listed_; i += kThreads) {
        if (OrderedKey(shared_.logit[i]) < least_key_) continue;
        f(shared_.token[i], shared_.logit[i]);
      }
      return;
    }
    logits_.ForEach([&](int v, float logit) {
      if (OrderedKey(logit) >= least_key_) f(v, logit);
    });
  }

  __device__ __noinline__ Prefix CountCandidates() {
    int own = 0;
    ForEachCandidate([&](int, float) { ++own; });
    return BlockPrefix<kThreads>(own, shared_.count);
  }

  // The keys of a search and their weights.
  enum class Search {
    kCount,   // By logit; every candidate weighs 1.
    kWeight,  // By logit; WeightOf().
    kTies,    // By id, lower first; those at least_key_ weigh 1.
  };

  __device__ uint32_t KeyIn(Search search, int v, float logit) const {
    return search == Search::kTies ? ~static_cast<uint32_t>(v)
                                   : OrderedKey(logit);
  }
  __device__ double WeightIn(Search search, float logit) const {
    if (search == Search::kWeight) return WeightOf(logit);
    const bool is_counted =
        search == Search::kCount || OrderedKey(logit) == least_key_;
    return is_counted ? 1 : 0;
  }

  struct Threshold {
    uint32_t key;
    double above;  // Weight of the larger keys.
  };

  // The largest key such that the candidates with that key and larger ones
  // weigh `target` together, or the smallest with a weight if they never do.
  // Stops early once those weigh at most `few`; then the key is smaller.
  __device__ __noinline__ Threshold FindThreshold(Search search, double target,
                                                  double few) {
    Threshold found = {0, 0};
    for (int shift = 28; shift >= 0; shift -= 4) {
      double bin[16] = {};
      ForEachCandidate([&](int v, float logit) {
        const uint32_t key = KeyIn(search, v, logit);
        // Two shifts, because one by 32 would be undefined.
        if ((key ^ found.key) >> shift >> 4 != 0) return;
        const uint32_t digit = key >> shift & 15;
        const double weight = WeightIn(search, logit);
#pragma unroll
        for (uint32_t d = 0; d < 16; ++d) {
          if (d == digit) bin[d] += weight;
        }
      });
      SumBins(bin);
      uint32_t digit = 0;
      double above = found.above;
      double sum = found.above;
      bool is_reached = false;
#pragma unroll
      for (int d = 15; d >= 0; --d) {
        if (bin[d] == 0 || is_reached) continue;
        digit = d;
        above = sum;
        sum += bin[d];
        is_reached = sum >= target;
      }
      found = {found.key | digit << shift, above};
      if (sum <= few) break;
    }
    return found;
  }

  // Sums every bin over the block.
  __device__ void SumBins(double (&bin)[16]) {
    __syncthreads();  // An earlier call may still read the bins.
#pragma unroll
    for (int d = 0; d < 16; ++d) {
      const double sum = WarpSum(bin[d]);
      if (threadIdx.x % 32 == 0) shared_.bin[threadIdx.x / 32][d] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < 16; ++d) {
      bin[d] = 0;
      for (int warp = 0; warp < kThreads / 32; ++warp) {
        bin[d] += shared_.bin[warp][d];
      }
    }
  }

  // Drops candidates below `key`, and lists the remaining ones if they are few.
  __device__ __noinline__ void RaiseLeast(uint32_t key) {
    if (key > least_key_) least_key_ = key;
    if (is_listed_) return;
    const Prefix prefix = CountCandidates();
    if (prefix.total > kMaxListed) return;
    int place = prefix.before;
    ForEachCandidate([&](int v, float logit) {
      shared_.token[place] = v;
      shared_.logit[place++] = logit;
    });
    __syncthreads();
    is_listed_ = true;
    num_listed_ = prefix.total;
  }

  // Ties at the k-th value are kept. A row with fewer possible tokens keeps all
  // of them, because the sum never reaches k.
  __device__ void KeepTopK(int k) {
    RaiseLeast(FindThreshold(Search::kCount, k, kMaxListed).key);
    if (is_listed_) RaiseLeast(FindThreshold(Search::kCount, k, 0).key);
  }

  // Keeps the best candidates whose weight reaches the share p of the total; of
  // equal ones those with lower ids. At least one is kept.
  __device__ void KeepTopP(double p) {
    double own = 0;
    ForEachCandidate([&](int, float logit) { own += WeightOf(logit); });
    const double total = BlockSum<kThreads>(own, shared_.sum);
    if (!is_listed_) DropLight((1 - p) / 2 * total);

    const double target = p * total;
    const Threshold least = FindThreshold(Search::kWeight, target, 0);
    RaiseLeast(least.key);
    // Keep as many of the tokens at the threshold as are needed.
    const double missing =
        (target - least.above) / WeightOf(FloatOfKey(least.key));
    KeepTies(missing > 1 ? ceil(missing) : 1);
  }

  // Tokens lighter than an n-th of `spare` weigh less than `spare` together.
  // They are not among the best that weigh all but twice `spare`.
  __device__ void DropLight(double spare) {
    const int n = CountCandidates().total;
    const double lowest = max_ + temperature_ * log(spare / n);
    RaiseLeast(OrderedKey(__double2float_rd(fmax(lowest, -FLT_MAX))));
  }

  // Keeps the first `count` of the candidates at least_key_, by id.
  __device__ void KeepTies(double count) {
    int own = 0;
    ForEachCandidate([&](int, float logit) {
      if (OrderedKey(logit) == least_key_) ++own;
    });
    if (BlockPrefix<kThreads>(own, shared_.count).total <= count) return;
    last_tie_ =
        static_cast<int32_t>(~FindThreshold(Search::kTies, count, 0).key);
  }

  const AdjustedLogits<kThreads, kRanks>& logits_;
  const double max_;
  const double temperature_;
  uint32_t least_key_;
  int32_t last_tie_ = INT32_MAX;
  bool is_listed_ = false;
  int num_listed_ = 0;
  Shared& shared_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_TOKEN_FILTER_CUH_
