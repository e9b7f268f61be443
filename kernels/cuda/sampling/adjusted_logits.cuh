// The logits that a row's token is drawn from: clean, with biases and
// penalties, and without banned tokens. They are not stored, but computed
// whenever they are read.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_ADJUSTED_LOGITS_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_ADJUSTED_LOGITS_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/sampling/block_ops.cuh"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/token_order.cuh"
#include "kernels/sampling.h"

namespace bole::cuda {

// Whether the draws of a request depend on its earlier tokens.
__device__ inline bool HasPenalties(const SamplingControl& control) {
  return control.presence_penalty != 0 || control.frequency_penalty != 0 ||
         control.repetition_penalty != 1;
}

// Whether stop tokens are banned from a row's draw. `position` is that of the
// row's own token.
__device__ inline bool BansStops(const SamplingControl& control,
                                 int32_t position) {
  return max(position + 1 - control.prompt_length, 0) < control.min_tokens;
}

// Rounds after every operation, as the reference does; no products are fused.
__device__ inline float Penalized(const SamplingControl& control, int32_t count,
                                  float logit) {
  if (count == 0) return logit;
  logit = logit > 0 ? __fdiv_rn(logit, control.repetition_penalty)
                    : __fmul_rn(logit, control.repetition_penalty);
  const int32_t times_in_output = count & (kPromptToken - 1);
  if (times_in_output > 0) {
    logit = __fsub_rn(logit, __fmul_rn(control.frequency_penalty,
                                       static_cast<float>(times_in_output)));
    logit = __fsub_rn(logit, control.presence_penalty);
  }
  return logit;
}

// The row of the same request that has the parent node, or -1.
__device__ inline int ParentRow(const RowBatch& batch, int first, int row) {
  const int32_t parent = batch.parent[row];
  if (parent < 0) return -1;
  // A request with all its nodes has them in order.
  const int guess = first + parent;
  if (guess < row && batch.node[guess] == parent) return guess;
  for (int r = row - 1; r >= first; --r) {
    if (batch.node[r] == parent) return r;
  }
  return -1;
}

// Whether a row's draw is from the unmodified logits, except for NaN.
__device__ inline bool HasPlainLogits(const SampleParams& p, int request,
                                      const SamplingControl& control,
                                      int32_t position) {
  return p.first_bias[request] == p.first_bias[request + 1] &&
         !HasPenalties(control) && !BansStops(control, position);
}

// The adjusted logits of one row, for a block of kThreads or each of its warps.
template <int kThreads, int kRanks>
class AdjustedLogits {
 public:
  // The most tokens of the row and its ancestors, from the row up, that are
  // kept in shared memory. The rest of longer paths is read from global memory.
  static constexpr int kPathTokens = 256;
  struct Shared {
    // The node, parent and token of the rows up to this one, from which the
    // path is found.
    int32_t node[kPathTokens];
    int32_t parent[kPathTokens];
    int32_t token[kPathTokens];
    int32_t path_token[kPathTokens];
    int num_path_tokens;
    int rest_row;  // The path's first row not among them, or -1.
  };
  // The size of `touched` for `num_tokens` tokens: a bit for each.
  __host__ __device__ static constexpr size_t TouchedBytes(int num_tokens) {
    return (static_cast<size_t>(num_tokens) + 31) / 32 * sizeof(uint32_t);
  }

  // Gives the logits of the tokens begin .. end - 1, where `begin` is a
  // multiple of 32. Synchronises the threads.
  __device__ AdjustedLogits(const SampleParams& p, const CutRow<kRanks>& raw,
                            int row, int begin, int end, uint32_t* touched,
                            Shared& shared)
      : p_(p),
        raw_(raw),
        begin_(begin),
        end_(min(end, p.num_valid_tokens)),
        request_(p.batch.request[row]),
        control_(p.control[request_]),
        has_bias_(p.first_bias[request_] < p.first_bias[request_ + 1]),
        has_penalties_(HasPenalties(control_)),
        position_(p.batch.committed[request_] + p.batch.depth[row]),
        bans_stops_(BansStops(control_, position_)),
        count_(has_penalties_ && p.batch.committed[request_] > 0
                   ? p.counts.count +
                         static_cast<int64_t>(p.batch.slot[request_]) *
                             p.vocabulary
                   : nullptr),
        touched_(touched),
        shared_(shared) {
    if (IsPlain() || end_ <= begin_) return;
    const int words = (end_ - begin_ + 31) / 32;
    for (int i = threadIdx.x; i < words; i += kThreads) touched[i] = 0;
    if (has_penalties_) FindPath(row);
    __syncthreads();
    for (int i = p.first_bias[request_] + threadIdx.x;
         i < p.first_bias[request_ + 1]; i += kThreads) {
      Touch(p.bias_token[i]);
    }
    if (bans_stops_) {
      for (int i = p.first_stop[request_] + threadIdx.x;
           i < p.first_stop[request_ + 1]; i += kThreads) {
        Touch(p.stop_token[i]);
      }
    }
    if (has_penalties_) TouchPath();
    __syncthreads();
  }

  __device__ const SamplingControl& control() const { return control_; }
  __device__ int num_tokens() const { return p_.num_valid_tokens; }
  // The position of the row's own token.
  __device__ int32_t position() const { return position_; }
  // The position that determines the noise of the row's draw.
  __device__ uint64_t next_position() const { return uint64_t{1} + position_; }

  // The logit of token v, begin <= v < end.
  __device__ float operator[](int32_t v) const { return Of(v, raw_[v]); }

  // A lane's logits of a group (row_parts.cuh); -inf beyond the end of the row.
  __device__ void Load(int group, float (&logit)[kThreadTokens]) const {
    raw_.Load(group, logit);
    Adjust(group, logit);
  }
  // The same for logits that have been loaded.
  __device__ void Adjust(int group, float (&logit)[kThreadTokens]) const {
    if (IsPlain()) return;
    int32_t count[kThreadTokens];
#pragma unroll
    for (int i = 0; i < kThreadTokens; ++i) {
      const int v = TokenAt(group, i);
      count[i] = count_ != nullptr && v < end_ ? count_[v] : 0;
    }
#pragma unroll
    for (int i = 0; i < kThreadTokens; ++i) {
      const int v = TokenAt(group, i);
      if (v >= end_ || (count[i] == 0 && !IsTouched(v))) continue;
      logit[i] = Adjusted(v, logit[i], count[i]);
    }
  }

  // Calls f(v, logit) for every token, each in one thread of the block.
  template <typename F>
  __device__ void ForEach(const F& f) const {
    for (int v = begin_; v < end_;) {
      const LogitRow part = raw_.PartOf(raw_.RankOf(v));
      const int end = min(end_, part.num_tokens);
      ForEachLogit<kThreads>(part.logits, v, end,
                             [&](int i, float raw) { f(i, Of(i, raw)); });
      v = end;
    }
  }

 private:
  __device__ float Of(int32_t v, float raw) const {
    const float clean = CleanLogit(raw);
    return IsPlain() ? clean
                     : Adjusted(v, clean, count_ == nullptr ? 0 : count_[v]);
  }

  __device__ bool IsPlain() const {
    return !has_bias_ && !has_penalties_ && !bans_stops_;
  }

  __device__ bool IsTouched(int32_t v) const {
    const int bit = v - begin_;
    return (touched_[bit / 32] >> (bit % 32) & 1) != 0;
  }
  __device__ void Touch(int32_t token) const {
    if (token < begin_ || token >= end_) return;
    const int bit = token - begin_;
    atomicOr(touched_ + bit / 32, 1u << (bit % 32));
  }

  // Finds the path from the row up, as far as it is among the last kPathTokens
  // rows.
  __device__ void FindPath(int row) {
    const int first = p_.batch.first_row[request_];
    const int begin = max(first, row + 1 - kPathTokens);
    for (int i = threadIdx.x; i <= row - begin; i += kThreads) {
      shared_.node[i] = p_.batch.node[begin + i];
      shared_.parent[i] = p_.batch.parent[begin + i];
      shared_.token[i] = p_.token[begin + i];
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    int count = 0;
    int own = row - begin;
    while (own >= 0) {
      shared_.path_token[count++] = shared_.token[own];
      const int32_t parent = shared_.parent[own];
      if (parent < 0) break;
      // A request with all its nodes has them in order.
      const int guess = first + parent - begin;
      if (guess >= 0 && guess < own && shared_.node[guess] == parent) {
        own = guess;
        continue;
      }
      row = begin + own;
      do --own;
      while (own >= 0 && shared_.node[own] != parent);
    }
    shared_.num_path_tokens = count;
    shared_.rest_row = own < 0 ? ParentRow(p_.batch, first, row) : -1;
  }

  __device__ void TouchPath() const {
    for (int i = threadIdx.x; i < shared_.num_path_tokens; i += kThreads) {
      Touch(shared_.path_token[i]);
    }
    if (threadIdx.x > 0) return;
    const int first = p_.batch.first_row[request_];
    for (int row = shared_.rest_row; row >= 0;
         row = ParentRow(p_.batch, first, row)) {
      Touch(p_.token[row]);
    }
  }

  // `count` is that of the committed tokens.
  __device__ __noinline__ float Adjusted(int32_t v, float logit,
                                         int32_t count) const {
    const bool is_touched = IsTouched(v);
    if (is_touched) logit = IsBanned(v) ? Impossible() : Biased(v, logit);
    if (!has_penalties_) return logit;
    if (is_touched) count = WithPath(v, count);
    return CleanLogit(Penalized(control_, count, logit));
  }

  __device__ bool IsBanned(int32_t v) const {
    if (!bans_stops_) return false;
    for (int i = p_.first_stop[request_]; i < p_.first_stop[request_ + 1];
         ++i) {
      if (p_.stop_token[i] == v) return true;
    }
    return false;
  }

  __device__ float Biased(int32_t v, float logit) const {
    for (int i = p_.first_bias[request_]; i < p_.first_bias[request_ + 1];
         ++i) {
      if (p_.bias_token[i] == v) logit += p_.bias[i];
    }
    return logit;
  }

  __device__ int32_t WithPath(int32_t v, int32_t count) const {
    const auto add = [&](int32_t token, int up) {
      if (token != v) return;
      if (position_ - up >= control_.prompt_length) {
        ++count;
      } else {
        count |= kPromptToken;
      }
    };
    int up = 0;
    for (; up < shared_.num_path_tokens; ++up) add(shared_.path_token[up], up);
    const int first = p_.batch.first_row[request_];
    for (int row = shared_.rest_row; row >= 0;
         row = ParentRow(p_.batch, first, row)) {
      add(p_.token[row], up++);
    }
    return count;
  }

  const SampleParams& p_;
  const CutRow<kRanks> raw_;
  const int begin_;
  const int end_;
  const int request_;
  const SamplingControl control_;
  const bool has_bias_;
  const bool has_penalties_;
  const int32_t position_;
  const bool bans_stops_;
  const int32_t* const count_;  // [V]; null if no tokens were counted.
  uint32_t* const touched_;     // Tokens with a bias or ban, or on the path.
  Shared& shared_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_ADJUSTED_LOGITS_CUH_
