// Counts the tokens that became part of their sequences. There are some blocks
// for each request, each with its share of the vocabulary.
#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/sampling.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 16;

// Grid: shares of the vocabulary, requests.
__global__ void __launch_bounds__(kThreads)
    CountTokensKernel(const __grid_constant__ CountTokensParams p) {
  WaitForPrevious();
  StartNext();
  const int request = blockIdx.y;
  const SamplingControl& control = p.control[request];
  const RowBatch& batch = p.batch;
  if (batch.first_row[request] == batch.first_row[request + 1]) return;
  const int share = (p.vocabulary + kBlocks - 1) / kBlocks;
  const int first_token = static_cast<int>(blockIdx.x) * share;
  const int end_token = min(first_token + share, p.vocabulary);
  int32_t* count =
      p.counts.count + static_cast<int64_t>(batch.slot[request]) * p.vocabulary;
  const int32_t committed = batch.committed[request];
  if (committed == 0) {
    for (int v = first_token + static_cast<int>(threadIdx.x); v < end_token;
         v += kThreads) {
      count[v] = 0;
    }
    __syncthreads();
  }
  for (int j = p.path.first[request] + static_cast<int>(threadIdx.x);
       j < p.path.first[request + 1]; j += kThreads) {
    const int row = p.path.row[j];
    const int32_t token = p.token[row];
    if (token < first_token || token >= end_token) continue;
    if (committed + batch.depth[row] >= control.prompt_length) {
      atomicAdd(count + token, 1);
    } else {
      atomicOr(count + token, kPromptToken);
    }
  }
}

// There is a thread for each token of the vocabulary.
__global__ void __launch_bounds__(kThreads)
    OutputToPromptKernel(const __grid_constant__ OutputToPromptParams p) {
  WaitForPrevious();
  StartNext();
  const int v =
      static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (v >= p.vocabulary) return;
  int32_t& count =
      p.counts.count[static_cast<int64_t>(p.slot) * p.vocabulary + v];
  if (count > 0) count = kPromptToken;
}

}  // namespace

absl::Status CountTokens(const CountTokensParams& params, const Launch& on) {
  const dim3 grid(kBlocks, params.batch.max_requests);
  return LaunchDependent("CountTokens", CountTokensKernel,
                         {.grid = grid, .block = kThreads}, on, params);
}

absl::Status OutputToPrompt(const OutputToPromptParams& params,
                            const Launch& on) {
  const int blocks = (params.vocabulary + kThreads - 1) / kThreads;
  return LaunchDependent("OutputToPrompt", OutputToPromptKernel,
                         {.grid = blocks, .block = kThreads}, on, params);
}

}  // namespace bole::cuda
