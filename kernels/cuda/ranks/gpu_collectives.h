// The collectives of kernels/collectives.h on the GPUs of a host.
#ifndef BOLE_KERNELS_CUDA_RANKS_GPU_COLLECTIVES_H_
#define BOLE_KERNELS_CUDA_RANKS_GPU_COLLECTIVES_H_

#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/collectives.h"
#include "kernels/collectives_kind.h"
#include "kernels/communicator.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/ranks/nccl_library.h"
#include "kernels/cuda/ranks/peer_arena.h"
#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {

// One rank's end. Both kinds give the same bits, on every rank, and all ranks
// must have the same kind.
//
// One thread at a time, bound to the rank's GPU, and one stream.
class GpuCollectives {
 public:
  // All ranks call it together. `ranks` outlives it and is used here alone.
  // UNAVAILABLE if GPUs cannot reach each other (kPush), or without NCCL
  // (kNccl).
  static absl::StatusOr<std::unique_ptr<GpuCollectives>> Create(
      int device, CollectivesKind kind, std::chrono::milliseconds deadline,
      Communicator& ranks, const Launch& on);
  ~GpuCollectives();

  // Queued, as the operators. UNIMPLEMENTED for widths that CheckReduceWidth()
  // refuses.
  absl::Status AllReduceAddNorm(const AllReduceAddNormParams& params,
                                const Launch& on);
  // `part`: [N, widths[rank]] of this rank; `whole`: [N, all widths], which may
  // begin where `part` does.
  absl::Status AllGather(RowCount rows, std::span<const int> widths,
                         const float* part, float* whole, const Launch& on);

  // DEADLINE_EXCEEDED, with its name, once this rank's GPU has waited for
  // another one in vain: from then on results are wrong. To be asked when what
  // was queued has been done.
  absl::Status status() const;

 private:
  struct FreeHost {
    void operator()(void* memory) const;
  };
  struct FreeDevice {
    void operator()(void* memory) const;
  };

  GpuCollectives() = default;
  absl::Status PreparePush(int device, Communicator& ranks, const Launch& on);
  absl::Status PrepareNccl(Communicator& ranks);
  absl::Status GatherByNccl(const GatherRange& range,
                            std::span<const int> widths, const Launch& on);

  Rank rank_;
  std::chrono::milliseconds deadline_{};
  CollectivesKind kind_ = CollectivesKind::kPush;
  // Of kPush.
  std::unique_ptr<PeerArena> arena_;
  std::unique_ptr<PushFailure, FreeHost> failure_;
  PushGroup group_ = {};
  // Of kNccl.
  const Nccl* nccl_ = nullptr;
  std::optional<NcclComm> comm_;
  std::unique_ptr<void, FreeDevice> parts_;  // Of all ranks.
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_GPU_COLLECTIVES_H_
