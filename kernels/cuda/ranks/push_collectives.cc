#include "kernels/cuda/ranks/push_collectives.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {

void PushCollectives::FreeHost::operator()(PushFailure* failure) const {
  cudaFreeHost(failure);
}

absl::StatusOr<PushCollectives::MappedFailure> PushCollectives::NewFailure() {
  void* memory = nullptr;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaHostAlloc(&memory, sizeof(PushFailure), cudaHostAllocMapped),
               "memory for a failure"));
  return MappedFailure(new (memory) PushFailure{});
}

PushCollectives::PushCollectives(Rank rank, std::chrono::milliseconds deadline,
                                 std::unique_ptr<PeerArena> arena,
                                 MappedFailure failure)
    : GpuCollectives(rank),
      deadline_(deadline),
      arena_(std::move(arena)),
      failure_(std::move(failure)),
      group_{.rank = rank.index,
             .count = rank.count,
             .arena = {},
             .failure = failure_.get(),
             .patience = static_cast<uint64_t>(
                 std::chrono::nanoseconds(deadline).count())} {
  for (int r = 0; r < rank.count; ++r) group_.arena[r] = arena_->of(r);
}

absl::StatusOr<std::unique_ptr<PushCollectives>> PushCollectives::Create(
    int device, std::chrono::milliseconds deadline, Communicator& ranks,
    const Launch& on) {
  BOLE_ASSIGN_OR_RETURN(
      std::unique_ptr<PeerArena> arena,
      PeerArena::Create(device, ArenaBytes(ranks.rank().count), ranks));
  BOLE_ASSIGN_OR_RETURN(MappedFailure failure, NewFailure());
  std::unique_ptr<PushCollectives> push(new PushCollectives(
      ranks.rank(), deadline, std::move(arena), std::move(failure)));
  // No rank may send before the slots of all ranks are empty.
  BOLE_RETURN_IF_ERROR(ClearArena(push->group_, on));
  BOLE_RETURN_IF_ERROR(ToStatus(cudaStreamSynchronize(on.stream),
                                "emptying of a rank's memory"));
  BOLE_RETURN_IF_ERROR(ranks.AllGather({}, {}));
  return push;
}

absl::Status PushCollectives::status() const {
  const int missing =
      static_cast<volatile PushFailure*>(failure_.get())->missing;
  if (missing == 0) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "rank ", missing - 1, " did not send what rank ", rank().index,
      " waited for, for ", deadline_.count(), " ms"));
}

absl::Status PushCollectives::ReduceRows(const AllReduceAddNormParams& params,
                                         int first_row, int num_rows,
                                         const Launch& on) {
  const size_t bytes = static_cast<size_t>(num_rows) *
                       static_cast<size_t>(params.width) *
                       ElementBytes(on.type);
  const ReduceForm form = form_.value_or(FasterReduceForm(group_.count, bytes));
  return form == ReduceForm::kTwoShot
             ? PushTwoShotAddNorm(params, first_row, num_rows, group_, on)
             : PushAllReduceAddNorm(params, first_row, num_rows, group_, on);
}

absl::Status PushCollectives::GatherRows(const GatherRange& range,
                                         std::span<const int> /*widths*/,
                                         const Launch& on) {
  return PushAllGather(range, group_, on);
}

}  // namespace bole::cuda
