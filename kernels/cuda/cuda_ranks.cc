// What of the GPU backend is done together with other ranks.
#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

// Logits of whole rows, which several ranks have in parts. What comes behind
// them is aligned.
size_t WholeBytes(int rows, int vocabulary, std::span<const int> rank_columns) {
  constexpr size_t kAlignment = 256;
  if (rank_columns.size() <= 1) return 0;
  const size_t bytes = static_cast<size_t>(rows) *
                       static_cast<size_t>(vocabulary) * sizeof(float);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

absl::Status CudaBackend::JoinRanks(const GpuRank& rank) {
  if (rank.ranks == nullptr || rank.ranks->rank().count == 1) {
    return absl::OkStatus();
  }
  ranks_ = rank.ranks;
  BOLE_ASSIGN_OR_RETURN(collectives_,
                        GpuCollectives::Create(device_, rank.collectives,
                                               rank.deadline, *ranks_, on_));
  absl::StrAppend(&name_, " on each of ", ranks_->rank().count, " ranks");
  return absl::OkStatus();
}

absl::Status CudaBackend::CheckRanks() const {
  return collectives_ == nullptr ? absl::OkStatus() : collectives_->status();
}

absl::Status CudaBackend::OneRankOnly() const {
  return absl::UnimplementedError(
      absl::StrCat(name_, " runs a model on one rank only"));
}

absl::Status CudaBackend::AllReduceAddNorm(
    const AllReduceAddNormParams& params) {
  return collectives_ == nullptr ? OneRankOnly()
                                 : collectives_->AllReduceAddNorm(params, on_);
}

absl::Status CudaBackend::AllGather(const AllGatherParams& params) {
  return collectives_ == nullptr
             ? OneRankOnly()
             : collectives_->AllGather(params.rows, params.widths,
                                       params.values, params.values, on_);
}

size_t CudaBackend::ScratchBytes(const SampleParams& params) const {
  return WholeBytes(params.batch.rows.max, params.vocabulary,
                    params.rank_columns) +
         SampleScratchBytes(params);
}

size_t CudaBackend::ScratchBytes(const TopKParams& params) const {
  return WholeBytes(params.rows.max, params.vocabulary, params.rank_columns) +
         TopKScratchBytes(params);
}

absl::Status CudaBackend::Sample(const SampleParams& params) {
  BOLE_ASSIGN_OR_RETURN(void* scratch, scratch_.Get(ScratchBytes(params), on_));
  if (collectives_ == nullptr) return cuda::Sample(params, scratch, on_);
  SampleParams whole = params;
  auto* const logits = static_cast<float*>(scratch);
  whole.logits = logits;
  BOLE_RETURN_IF_ERROR(collectives_->AllGather(
      params.batch.rows, params.rank_columns, params.logits, logits, on_));
  const size_t used =
      WholeBytes(params.batch.rows.max, params.vocabulary, params.rank_columns);
  return cuda::Sample(whole, static_cast<char*>(scratch) + used, on_);
}

absl::Status CudaBackend::TopK(const TopKParams& params) {
  BOLE_ASSIGN_OR_RETURN(void* scratch, scratch_.Get(ScratchBytes(params), on_));
  if (collectives_ == nullptr) return cuda::TopK(params, scratch, on_);
  TopKParams whole = params;
  auto* const logits = static_cast<float*>(scratch);
  whole.logits = logits;
  BOLE_RETURN_IF_ERROR(collectives_->AllGather(params.rows, params.rank_columns,
                                               params.logits, logits, on_));
  const size_t used =
      WholeBytes(params.rows.max, params.vocabulary, params.rank_columns);
  return cuda::TopK(whole, static_cast<char*>(scratch) + used, on_);
}

}  // namespace bole::cuda
