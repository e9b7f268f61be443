// The operations of the GPU backend that involve other ranks.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
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

absl::StatusOr<DeviceMemory> CudaBackend::AllocateShared(
    size_t bytes, std::string_view what) {
  if (collectives_ == nullptr || MakesLogitsWhole()) {
    return Allocate(bytes, what);
  }
  absl::StatusOr<std::unique_ptr<PeerArena>> arena =
      PeerArena::Create(device_, bytes, *ranks_);
  if (!arena.ok()) {
    return absl::Status(
        arena.status().code(),
        absl::StrCat(std::string(what), ": ", arena.status().message()));
  }
  void* const own = (*arena)->of(rank().index);
  shared_.push_back(*std::move(arena));
  return DeviceMemory(own, DeviceDeleter{this});
}

size_t CudaBackend::WholeBytes(int rows, int vocabulary) const {
  // What follows the logits is aligned.
  constexpr size_t kAlignment = 256;
  if (!MakesLogitsWhole()) return 0;
  const size_t bytes = static_cast<size_t>(rows) *
                       static_cast<size_t>(vocabulary) * sizeof(float);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

absl::StatusOr<CutLogits> CudaBackend::LogitsOf(
    RowCount rows, const float* logits, int vocabulary,
    std::span<const int> rank_columns, void* scratch) {
  if (collectives_ == nullptr) return WholeLogits(logits, vocabulary);
  if (MakesLogitsWhole()) {
    auto* const whole = static_cast<float*>(scratch);
    BOLE_RETURN_IF_ERROR(
        collectives_->AllGather(rows, rank_columns, logits, whole, on_));
    return WholeLogits(whole, vocabulary);
  }
  const PushGroup* const group = collectives_->push_group();
  BOLE_CHECK(std::ssize(rank_columns) == group->count);
  CutLogits cut = {.is_cut = true, .whole = {}, .parts = {}};
  cut.parts.ranks.group = *group;
  cut.parts.part[group->rank] = logits;
  for (int r = 0; r < group->count; ++r) {
    cut.parts.first[r + 1] = cut.parts.first[r] + rank_columns[r];
  }
  return cut;
}

absl::StatusOr<CutLogits> CudaBackend::LogitsOf(const SampleParams& params,
                                                void* scratch) {
  const int64_t columns = collectives_ == nullptr
                              ? params.vocabulary
                              : params.rank_columns[rank().index];
  BOLE_ASSIGN_OR_RETURN(
      CutLogits cut,
      LogitsOf(params.batch.rows, params.logits + params.first_logits * columns,
               params.vocabulary, params.rank_columns, scratch));
  if (!cut.is_cut) return cut;
  const auto arena = std::find_if(
      shared_.begin(), shared_.end(),
      [&](const auto& memory) { return memory->Has(params.logits); });
  if (arena == shared_.end()) {
    return absl::FailedPreconditionError(
        "Sample: the logits are not where other ranks can read them");
  }
  const auto offset =
      reinterpret_cast<const char*>(params.logits) - (*arena)->of(rank().index);
  for (int r = 0; r < rank().count; ++r) {
    cut.parts.part[r] =
        reinterpret_cast<const float*>((*arena)->of(r) + offset) +
        params.first_logits * params.rank_columns[r];
  }
  return cut;
}

size_t CudaBackend::ScratchBytes(const SampleParams& params) const {
  return WholeBytes(params.batch.rows.max, params.vocabulary) +
         SampleScratchBytes(params, MakesLogitsWhole() ? 1 : rank().count);
}

size_t CudaBackend::ScratchBytes(const TopKParams& params) const {
  return WholeBytes(params.rows.max, params.vocabulary) +
         TopKScratchBytes(params, MakesLogitsWhole() ? 1 : rank().count);
}

absl::Status CudaBackend::Sample(const SampleParams& params) {
  BOLE_ASSIGN_OR_RETURN(void* scratch, scratch_.Get(ScratchBytes(params), on_));
  BOLE_ASSIGN_OR_RETURN(const CutLogits logits, LogitsOf(params, scratch));
  const size_t used = WholeBytes(params.batch.rows.max, params.vocabulary);
  return cuda::Sample(params, logits, static_cast<char*>(scratch) + used, on_);
}

absl::Status CudaBackend::TopK(const TopKParams& params) {
  BOLE_ASSIGN_OR_RETURN(void* scratch, scratch_.Get(ScratchBytes(params), on_));
  BOLE_ASSIGN_OR_RETURN(const CutLogits logits,
                        LogitsOf(params.rows, params.logits, params.vocabulary,
                                 params.rank_columns, scratch));
  const size_t used = WholeBytes(params.rows.max, params.vocabulary);
  return cuda::TopK(params, logits, static_cast<char*>(scratch) + used, on_);
}

}  // namespace bole::cuda
