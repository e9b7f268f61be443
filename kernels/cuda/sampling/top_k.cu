// Finds the k likeliest tokens of every row, with a block for each part of a
// row, then a warp for each row.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/sampling/row_best.cuh"

namespace bole::cuda {
namespace {

// Scans as many rows as the grid has, from first_row on.
template <int kRanks>
__global__ void __launch_bounds__(kPartThreads, 6)
    PartKernel(const __grid_constant__ TopKParams p,
               const __grid_constant__ LogitParts<kRanks> logits,
               bool is_aligned, const __grid_constant__ PartCut cut,
               int first_row) {
  __shared__ PartShared<kMaxDraftTopK> shared;
  const int place = blockIdx.y;
  WaitForPrevious();
  StartNext();
  // The load starts before it is known whether the row is in use, because that
  // takes as long.
  const LogitRow own =
      OwnRow(logits, first_row + place, p.num_valid_tokens, is_aligned);
  const int part = blockIdx.x;
  float logit[kThreadTokens];
  own.Load(GroupOf(part), logit);
  if (first_row + place < *p.rows.count && part < cut.own_parts) {
    FindPartBest(own, part, logit, p.top_k,
                 PartSender(logits.ranks, gridDim.y, cut), place, shared);
  }
  EndSending(logits.ranks);
}

template <int kRanks>
__global__ void __launch_bounds__(32)
    RowKernel(const __grid_constant__ TopKParams p,
              const __grid_constant__ PartCut cut,
              const __grid_constant__ Exchange<kRanks> ranks, int first_row) {
  extern __shared__ Rank merge_shared[];
  WaitForPrevious();
  StartNext();
  const PartResults results =
      PartResults::In(AwaitResults(ranks), gridDim.x, cut);
  const int row = first_row + static_cast<int>(blockIdx.x);
  const bool is_used = row < *p.rows.count;
  const RowBest best(results, blockIdx.x, p.top_k, merge_shared);
  const int i = threadIdx.x;
  if (i >= p.top_k || !is_used) return;
  const int64_t out = static_cast<int64_t>(row) * p.top_k + i;
  const int32_t column = TokenOf(best.best(i));
  p.token[out] = p.token_of == nullptr ? column : p.token_of[column];
  p.log_prob[out] = best.softmax().LogProb(ValueOf(best.best(i)));
}

template <int kRanks>
absl::Status TopKOf(const TopKParams& params, const LogitParts<kRanks>& logits,
                    const Launch& on) {
  const auto cut = PartCut::Of(logits, params.num_valid_tokens, params.top_k);
  if (params.top_k < 1 || params.top_k > kMaxDraftTopK ||
      params.top_k > params.num_valid_tokens || cut.num_parts > kMaxParts) {
    return absl::UnimplementedError(
        absl::StrCat("TopK: the ", params.top_k, " best of ",
                     params.num_valid_tokens, " tokens; 1 to ", kMaxDraftTopK,
                     " of up to ", kMaxParts * kPartTokens, " can be had"));
  }
  const int rank = logits.ranks.rank();
  const bool is_aligned = IsAligned(logits.part[rank], logits.Columns(rank));
  const int rows = params.rows.max;
  const int at_once = RowsAtOnce(
      logits.ranks, rows, PartResults::RowBytes(cut.num_parts, params.top_k));
  absl::Status status;
  for (int first = 0; first < rows && status.ok(); first += at_once) {
    const unsigned count = std::min(at_once, rows - first);
    const unsigned parts = std::max(cut.own_parts, 1);
    status.Update(
        LaunchDependent("TopK", PartKernel<kRanks>,
                        {.grid = dim3(parts, count), .block = kPartThreads}, on,
                        params, logits, is_aligned, cut, first));
    status.Update(LaunchDependent(
        "TopK", RowKernel<kRanks>,
        {.grid = count,
         .block = 32,
         .shared_bytes = RowBest::SharedBytes(cut.num_parts, params.top_k)},
        on, params, cut, logits.ranks, first));
  }
  return status;
}

}  // namespace

size_t TopKScratchBytes(const TopKParams& params, int num_ranks) {
  if (num_ranks > 1) return 0;
  return params.rows.max *
         PartResults::RowBytes(NumParts(params.num_valid_tokens), params.top_k);
}

absl::Status TopK(const TopKParams& params, const CutLogits& logits,
                  void* scratch, const Launch& on) {
  if (logits.is_cut) return TopKOf(params, logits.parts, on);
  LogitParts<1> whole = logits.whole;
  whole.ranks.results = scratch;
  return TopKOf(params, whole, on);
}

}  // namespace bole::cuda
