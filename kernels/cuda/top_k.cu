// The k likeliest tokens of every row: one block for each.
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/best_tokens.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 512;
using Best = BestTokens<kThreads, kMaxDraftTopK>;

__global__ void __launch_bounds__(kThreads) TopKKernel(TopKParams p) {
  extern __shared__ Rank top_k_lists[];
  __shared__ Best::Shared shared;
  const int row = blockIdx.x;
  if (row >= *p.rows.count) return;
  const float* logits = p.logits + static_cast<int64_t>(row) * p.vocabulary;
  const Best best(logits, p.num_valid_tokens, p.top_k, top_k_lists, shared);
  const int i = threadIdx.x;
  if (i >= p.top_k) return;
  const int64_t out = static_cast<int64_t>(row) * p.top_k + i;
  p.token[out] = best.token(i);
  p.log_prob[out] = best.LogProb(i);
}

}  // namespace

absl::Status TopK(const TopKParams& params, const Launch& on) {
  if (params.top_k < 1 || params.top_k > kMaxDraftTopK ||
      params.top_k > params.num_valid_tokens) {
    return absl::UnimplementedError(absl::StrCat(
        "TopK: the ", params.top_k, " best of ", params.num_valid_tokens,
        " tokens; 1 to ", kMaxDraftTopK, " can be had"));
  }
  const size_t bytes = Best::ListBytes(params.top_k);
  const absl::Status allowed =
      ToStatus(cudaFuncSetAttribute(TopKKernel,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)),
               "shared memory of TopK");
  if (!allowed.ok()) return allowed;
  TopKKernel<<<params.rows.max, kThreads, bytes, on.stream>>>(params);
  return LaunchStatus("TopK");
}

}  // namespace bole::cuda
