// Sums over ranks in a form that the caller chooses, for tests and benchmarks.
#ifndef BOLE_TESTS_KERNELS_CUDA_RANKS_PUSH_END_H_
#define BOLE_TESTS_KERNELS_CUDA_RANKS_PUSH_END_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "cuda_runtime_api.h"
#include "kernels/collectives.h"
#include "kernels/communicator.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ranks/peer_arena.h"
#include "kernels/cuda/ranks/push.h"
#include "kernels/cuda/ranks/reduce_form.h"

namespace bole::testing {

// One rank's end, with memory of its own. Nobody may write to it any more when
// it is destroyed.
class PushEnd {
 public:
  // All ranks call it together. The backend's GPU is `device`.
  static absl::StatusOr<std::unique_ptr<PushEnd>> Create(
      const cuda::CudaBackend& backend, int device,
      std::chrono::nanoseconds patience, Communicator& ranks) {
    std::unique_ptr<PushEnd> end(new PushEnd);
    const int count = ranks.rank().count;
    BOLE_ASSIGN_OR_RETURN(
        end->arena_,
        cuda::PeerArena::Create(device, cuda::ArenaBytes(count), ranks));
    void* failure = nullptr;
    if (cudaHostAlloc(&failure, sizeof(cuda::PushFailure),
                      cudaHostAllocMapped) != cudaSuccess) {
      return absl::ResourceExhaustedError("no memory for a failure");
    }
    end->failure_.reset(new (failure) cuda::PushFailure{});
    end->group_ = {.rank = ranks.rank().index,
                   .count = count,
                   .arena = {},
                   .failure = end->failure_.get(),
                   .patience = static_cast<uint64_t>(patience.count())};
    for (int r = 0; r < count; ++r) end->group_.arena[r] = end->arena_->of(r);
    BOLE_RETURN_IF_ERROR(cuda::ClearArena(end->group_, backend.launch()));
    if (cudaStreamSynchronize(backend.stream()) != cudaSuccess) {
      return absl::InternalError("a rank's memory could not be emptied");
    }
    BOLE_RETURN_IF_ERROR(ranks.AllGather({}, {}));
    return end;
  }

  // Queues a sum, in calls of as many rows as fit kSlotBytes.
  absl::Status Reduce(cuda::ReduceForm form,
                      const AllReduceAddNormParams& params,
                      const cuda::Launch& on) const {
    const auto reduce = form == cuda::ReduceForm::kTwoShot
                            ? cuda::PushTwoShotAddNorm
                            : cuda::PushAllReduceAddNorm;
    const int at_once =
        static_cast<int>(cuda::kSlotBytes / (static_cast<size_t>(params.width) *
                                             ElementBytes(on.type)));
    for (int first = 0; first < params.rows.max; first += at_once) {
      const int rows = std::min(at_once, params.rows.max - first);
      BOLE_RETURN_IF_ERROR(reduce(params, first, rows, group_, on));
    }
    return absl::OkStatus();
  }

  // The rank that did not come, once what was queued has been done.
  std::optional<int> missing() const {
    const int missing =
        static_cast<volatile cuda::PushFailure*>(failure_.get())->missing;
    if (missing == 0) return std::nullopt;
    return missing - 1;
  }

 private:
  struct FreeHost {
    void operator()(void* memory) const { cudaFreeHost(memory); }
  };

  PushEnd() = default;

  std::unique_ptr<cuda::PeerArena> arena_;
  std::unique_ptr<cuda::PushFailure, FreeHost> failure_;
  cuda::PushGroup group_{};
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_RANKS_PUSH_END_H_
