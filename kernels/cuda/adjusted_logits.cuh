// The logits that a row's token is drawn from: clean, with biases and
// penalties. They are computed anew whenever they are read, and stored nowhere.
#ifndef BOLE_KERNELS_CUDA_ADJUSTED_LOGITS_CUH_
#define BOLE_KERNELS_CUDA_ADJUSTED_LOGITS_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/block_ops.cuh"
#include "kernels/cuda/token_order.cuh"
#include "kernels/sampling.h"

namespace bole::cuda {

// Whether the draws of a request depend on the tokens before.
__device__ inline bool HasPenalties(const SamplingControl& control) {
  return control.presence_penalty != 0 || control.frequency_penalty != 0 ||
         control.repetition_penalty != 1;
}

// Rounded after every operation, as the reference is: no fused products.
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

// The row of the same request that has the node before, or -1.
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

template <int kThreads>
class AdjustedLogits {
 public:
  // The tokens of the row and its ancestors, from the row up. Of longer paths
  // the rest is read where it lies.
  static constexpr int kPathTokens = 256;
  struct Shared {
    int32_t path_token[kPathTokens];
    int num_path_tokens;
    int rest_row;  // The first that is not among them, or -1.
  };
  // Of dynamic shared memory, for `touched`: a bit for each token.
  static constexpr size_t TouchedBytes(int num_valid_tokens) {
    return (static_cast<size_t>(num_valid_tokens) + 31) / 32 * sizeof(uint32_t);
  }

  // Synchronises.
  __device__ AdjustedLogits(const SampleParams& p, int row, uint32_t* touched,
                            Shared& shared)
      : p_(p),
        raw_(p.logits + static_cast<int64_t>(row) * p.vocabulary),
        request_(p.batch.request[row]),
        control_(p.control[request_]),
        has_bias_(p.first_bias[request_] < p.first_bias[request_ + 1]),
        has_penalties_(HasPenalties(control_)),
        position_(p.batch.committed[request_] + p.batch.depth[row]),
        touched_(touched),
        shared_(shared) {
    if (!has_bias_ && !has_penalties_) return;
    const int words = (p.num_valid_tokens + 31) / 32;
    for (int i = threadIdx.x; i < words; i += kThreads) touched[i] = 0;
    __syncthreads();
    for (int i = p.first_bias[request_] + threadIdx.x;
         i < p.first_bias[request_ + 1]; i += kThreads) {
      Touch(p.bias_token[i]);
    }
    if (has_penalties_ && threadIdx.x == 0) TouchPath(row);
    __syncthreads();
  }

  __device__ const SamplingControl& control() const { return control_; }
  __device__ int num_tokens() const { return p_.num_valid_tokens; }
  // Of the row's own token.
  __device__ int32_t position() const { return position_; }

  __device__ float operator[](int32_t v) const { return Adjusted(v, raw_[v]); }

  // Calls f(v, logit) for every token, each in one thread.
  template <typename F>
  __device__ void ForEach(const F& f) const {
    ForEachLogit<kThreads>(raw_, num_tokens(),
                           [&](int v, float raw) { f(v, Adjusted(v, raw)); });
  }

 private:
  __device__ void Touch(int32_t token) {
    if (token >= num_tokens()) return;
    atomicOr(touched_ + token / 32, 1u << (token % 32));
  }

  __device__ void TouchPath(int row) {
    const int first = p_.batch.first_row[request_];
    int count = 0;
    shared_.rest_row = -1;
    for (; row >= 0; row = ParentRow(p_.batch, first, row)) {
      Touch(p_.token[row]);
      if (count < kPathTokens) {
        shared_.path_token[count++] = p_.token[row];
      } else if (shared_.rest_row < 0) {
        shared_.rest_row = row;
      }
    }
    shared_.num_path_tokens = count;
  }

  __device__ float Adjusted(int32_t v, float raw) const {
    float logit = CleanLogit(raw);
    if (!has_bias_ && !has_penalties_) return logit;
    const bool is_touched = (touched_[v / 32] >> (v % 32) & 1) != 0;
    if (is_touched) logit = Biased(v, logit);
    if (!has_penalties_) return logit;
    int32_t count = CommittedCount(v);
    if (is_touched) count = WithPath(v, count);
    return CleanLogit(Penalized(control_, count, logit));
  }

  __device__ float Biased(int32_t v, float logit) const {
    for (int i = p_.first_bias[request_]; i < p_.first_bias[request_ + 1];
         ++i) {
      if (p_.bias_token[i] == v) logit += p_.bias[i];
    }
    return logit;
  }

  __device__ int32_t CommittedCount(int32_t v) const {
    if (p_.batch.committed[request_] == 0) return 0;
    const int64_t slot = p_.batch.slot[request_];
    return p_.counts.count[slot * p_.vocabulary + v];
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
  const float* const raw_;  // [num_valid_tokens]
  const int request_;
  const SamplingControl control_;
  const bool has_bias_;
  const bool has_penalties_;
  const int32_t position_;
  uint32_t* const touched_;  // Tokens that a bias or the path names.
  Shared& shared_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ADJUSTED_LOGITS_CUH_
