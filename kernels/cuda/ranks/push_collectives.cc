#include "kernels/cuda/ranks/push_collectives.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/ranks/peer_arena.h"
#include "kernels/cuda/ranks/push.h"
#include "kernels/cuda/ranks/reduce_form.h"

namespace bole::cuda {
namespace {

struct FreeHost {
  void operator()(void* memory) const { cudaFreeHost(memory); }
};
using MappedFailure = std::unique_ptr<PushFailure, FreeHost>;

absl::StatusOr<MappedFailure> NewFailure() {
  void* memory = nullptr;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaHostAlloc(&memory, sizeof(PushFailure), cudaHostAllocMapped),
               "memory for a failure"));
  return MappedFailure(new (memory) PushFailure{});
}

class PushCollectives final : public GpuCollectives {
 public:
  PushCollectives(Rank rank, std::chrono::milliseconds deadline,
                  std::unique_ptr<PeerArena> arena, MappedFailure failure)
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

  // Nobody sends before all are empty.
  absl::Status Clear(Communicator& ranks, const Launch& on) {
    BOLE_RETURN_IF_ERROR(ClearArena(group_, on));
    BOLE_RETURN_IF_ERROR(ToStatus(cudaStreamSynchronize(on.stream),
                                  "emptying of a rank's memory"));
    return ranks.AllGather({}, {});
  }

  const PushGroup* push_group() const override { return &group_; }

  absl::Status status() const override {
    const int missing =
        static_cast<volatile PushFailure*>(failure_.get())->missing;
    if (missing == 0) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat(
        "rank ", missing - 1, " did not send what rank ", rank().index,
        " waited for, for ", deadline_.count(), " ms"));
  }

 private:
  absl::Status ReduceRows(const AllReduceAddNormParams& params, int first_row,
                          int num_rows, const Launch& on) override {
    const size_t bytes = static_cast<size_t>(num_rows) *
                         static_cast<size_t>(params.width) *
                         ElementBytes(on.type);
    return FasterReduceForm(group_.count, bytes) == ReduceForm::kTwoShot
               ? PushTwoShotAddNorm(params, first_row, num_rows, group_, on)
               : PushAllReduceAddNorm(params, first_row, num_rows, group_, on);
  }
  absl::Status GatherRows(const GatherRange& range,
                          std::span<const int> /*widths*/,
                          const Launch& on) override {
    return PushAllGather(range, group_, on);
  }

  const std::chrono::milliseconds deadline_;
  const std::unique_ptr<PeerArena> arena_;
  const MappedFailure failure_;
  PushGroup group_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuCollectives>> MakePushCollectives(
    int device, std::chrono::milliseconds deadline, Communicator& ranks,
    const Launch& on) {
  BOLE_ASSIGN_OR_RETURN(
      std::unique_ptr<PeerArena> arena,
      PeerArena::Create(device, ArenaBytes(ranks.rank().count), ranks));
  BOLE_ASSIGN_OR_RETURN(MappedFailure failure, NewFailure());
  auto push = std::make_unique<PushCollectives>(
      ranks.rank(), deadline, std::move(arena), std::move(failure));
  BOLE_RETURN_IF_ERROR(push->Clear(ranks, on));
  return push;
}

}  // namespace bole::cuda
