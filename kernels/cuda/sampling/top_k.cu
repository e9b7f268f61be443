// The k likeliest tokens of every row: a block for each part of a row, then a
// warp for each row.
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/sampling/row_best.cuh"

namespace bole::cuda {
namespace {

__global__ void __launch_bounds__(kPartThreads)
    PartKernel(const __grid_constant__ TopKParams p, PartResults results,
               bool is_aligned) {
  __shared__ PartShared<kMaxDraftTopK> shared;
  const int row = blockIdx.y;
  WaitForPrevious();
  StartNext();
  // Before it is known whether the row is in use: that takes as long.
  const LogitRow logits =
      RowOf(p.logits, row, p.vocabulary, p.num_valid_tokens, is_aligned);
  const int part = blockIdx.x;
  float logit[kThreadTokens];
  logits.Load(GroupOf(part), logit);
  if (row >= *p.rows.count) return;
  FindPartBest(logits, part, logit, p.top_k, results, row, shared);
}

__global__ void __launch_bounds__(32)
    RowKernel(const __grid_constant__ TopKParams p, PartResults results) {
  extern __shared__ Rank merge_shared[];
  const int row = blockIdx.x;
  WaitForPrevious();
  StartNext();
  const bool is_used = row < *p.rows.count;
  const RowBest best(results, row, p.top_k, merge_shared);
  const int i = threadIdx.x;
  if (i >= p.top_k || !is_used) return;
  const int64_t out = static_cast<int64_t>(row) * p.top_k + i;
  const int32_t column = TokenOf(best.best(i));
  p.token[out] = p.token_of == nullptr ? column : p.token_of[column];
  p.log_prob[out] = best.softmax().LogProb(ValueOf(best.best(i)));
}

}  // namespace

size_t TopKScratchBytes(const TopKParams& params) {
  return PartResults::Bytes(params.rows.max, NumParts(params.num_valid_tokens),
                            params.top_k);
}

absl::Status TopK(const TopKParams& params, void* scratch, const Launch& on) {
  const int parts = NumParts(params.num_valid_tokens);
  if (params.top_k < 1 || params.top_k > kMaxDraftTopK ||
      params.top_k > params.num_valid_tokens || parts > kMaxParts) {
    return absl::UnimplementedError(
        absl::StrCat("TopK: the ", params.top_k, " best of ",
                     params.num_valid_tokens, " tokens; 1 to ", kMaxDraftTopK,
                     " of up to ", kMaxParts * kPartTokens, " can be had"));
  }
  const PartResults results =
      PartResults::In(scratch, params.rows.max, parts, params.top_k);
  const unsigned rows = params.rows.max;
  const absl::Status queued = LaunchDependent(
      "TopK", PartKernel, {.grid = dim3(parts, rows), .block = kPartThreads},
      on, params, results, IsAligned(params.logits, params.vocabulary));
  if (!queued.ok()) return queued;
  return LaunchDependent(
      "TopK", RowKernel,
      {.grid = rows,
       .block = 32,
       .shared_bytes = RowBest::SharedBytes(parts, params.top_k)},
      on, params, results);
}

}  // namespace bole::cuda
