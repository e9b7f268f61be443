// The results of the parts of rows, on whichever rank the parts are.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_PART_RESULTS_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_PART_RESULTS_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ranks/exchange.cuh"
#include "kernels/cuda/sampling/cut_logits.h"
#include "kernels/cuda/sampling/row_parts.cuh"
#include "kernels/cuda/sampling/token_order.cuh"

namespace bole::cuda {

// Which parts of rows each rank has. A rank's parts begin where its columns
// begin, so every part is on one rank.
struct PartCut {
  int num_parts;  // P, the parts of all ranks.
  int own_parts;  // This rank's parts, from first_part on.
  int first_part;
  int first_token;  // Where this rank's columns begin.
  int max_k;

  template <int kRanks>
  static PartCut Of(const LogitParts<kRanks>& logits, int num_tokens,
                    int max_k) {
    PartCut cut = {.num_parts = 0,
                   .own_parts = 0,
                   .first_part = 0,
                   .first_token = logits.first[logits.ranks.rank()],
                   .max_k = max_k};
    for (int r = 0; r < logits.ranks.count(); ++r) {
      const int parts = NumParts(logits.Valid(r, num_tokens));
      if (r == logits.ranks.rank()) {
        cut.first_part = cut.num_parts;
        cut.own_parts = parts;
      }
      cut.num_parts += parts;
    }
    return cut;
  }
};

// The results of parts, from which those of rows are computed; device memory.
struct PartResults {
  double* sum;   // [rows, P] of exp(logit - max) of the part.
  Rank* rank;    // [rows, P * max_k] P lists of the k best, in order.
  float* max;    // [rows, P]
  float* drawn;  // [rows] the logit of the drawn token, if any.
  int num_parts;
  int max_k;

  // `k` <= max_k is the number that the row requests.
  __device__ Rank* RanksOf(int row, int part, int k) const {
    return rank + static_cast<int64_t>(row) * num_parts * max_k + part * k;
  }

  static constexpr size_t RowBytes(int num_parts, int max_k) {
    return num_parts * (sizeof(double) + max_k * sizeof(Rank) + sizeof(float)) +
           sizeof(float);
  }
  __device__ static PartResults In(void* memory, int64_t rows,
                                   const PartCut& cut) {
    const int64_t parts = rows * cut.num_parts;
    auto* const sum = static_cast<double*>(memory);
    auto* const rank = reinterpret_cast<Rank*>(sum + parts);
    auto* const max = reinterpret_cast<float*>(rank + parts * cut.max_k);
    return {sum, rank, max, max + parts, cut.num_parts, cut.max_k};
  }
};

// Sends the results of a block's part of a row to all ranks.
template <int kRanks>
class PartSender {
 public:
  // The results have `rows` rows.
  __device__ PartSender(const Exchange<kRanks>& x, int64_t rows,
                        const PartCut& cut)
      : x_(x), cut_(cut), rows_(rows), call_(NumberOf(x)) {}

  __device__ int num_ranks() const { return x_.count(); }
  __device__ const PartCut& cut() const { return cut_; }
  __device__ PartResults On(int rank) const {
    return PartResults::In(ResultsOn(x_, rank, call_), rows_, cut_);
  }
  // Converts a rank whose token is numbered within this rank's columns into
  // that with the token's number among all columns.
  __device__ Rank Whole(Rank own) const {
    return own == kNoRank ? kNoRank : own - cut_.first_token;
  }

 private:
  const Exchange<kRanks>& x_;
  const PartCut& cut_;
  const int64_t rows_;
  const uint64_t call_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_PART_RESULTS_CUH_
