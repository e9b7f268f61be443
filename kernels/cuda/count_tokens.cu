// Counting the tokens that became part of their sequences: one block for each
// request.
#include <cstdint>

#include "kernels/cuda/adjusted_logits.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 1024;

__global__ void __launch_bounds__(kThreads)
    CountTokensKernel(CountTokensParams p) {
  const int request = blockIdx.x;
  const SamplingControl& control = p.control[request];
  const RowBatch& batch = p.batch;
  const bool is_used = batch.first_row[request] < batch.first_row[request + 1];
  if (!is_used || !HasPenalties(control)) return;
  int32_t* count =
      p.counts.count + static_cast<int64_t>(batch.slot[request]) * p.vocabulary;
  const int32_t committed = batch.committed[request];
  if (committed == 0) {
    for (int v = threadIdx.x; v < p.vocabulary; v += kThreads) count[v] = 0;
    __syncthreads();
  }
  for (int j = p.path.first[request] + static_cast<int>(threadIdx.x);
       j < p.path.first[request + 1]; j += kThreads) {
    const int row = p.path.row[j];
    int32_t* const own = count + p.token[row];
    if (committed + batch.depth[row] >= control.prompt_length) {
      atomicAdd(own, 1);
    } else {
      atomicOr(own, kPromptToken);
    }
  }
}

}  // namespace

absl::Status CountTokens(const CountTokensParams& params, const Launch& on) {
  CountTokensKernel<<<params.batch.max_requests, kThreads, 0, on.stream>>>(
      params);
  return LaunchStatus("CountTokens");
}

}  // namespace bole::cuda
