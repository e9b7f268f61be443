// The collectives of kernels/collectives.h on the GPUs of a host.
#ifndef BOLE_KERNELS_CUDA_RANKS_GPU_COLLECTIVES_H_
#define BOLE_KERNELS_CUDA_RANKS_GPU_COLLECTIVES_H_

#include <chrono>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/collectives.h"
#include "kernels/collectives_kind.h"
#include "kernels/communicator.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/ranks/push.h"
#include "kernels/rank.h"

namespace bole::cuda {

// One rank's end of the collectives. Every kind gives the same bits, on every
// rank, and all ranks must use the same kind.
//
// Used by one thread at a time, which is bound to the rank's GPU, and on one
// stream.
class GpuCollectives {
 public:
  // All ranks call it together. `ranks` must outlive the object and be used by
  // nothing else. UNAVAILABLE if GPUs cannot reach each other (kPush), or if
  // NCCL is not installed (kNccl).
  static absl::StatusOr<std::unique_ptr<GpuCollectives>> Create(
      int device, CollectivesKind kind, std::chrono::milliseconds deadline,
      Communicator& ranks, const Launch& on);
  virtual ~GpuCollectives() = default;

  // These are queued, like the operators. UNIMPLEMENTED for widths that
  // CheckReduceWidth() refuses.
  absl::Status AllReduceAddNorm(const AllReduceAddNormParams& params,
                                const Launch& on);
  // `part`: [N, widths[rank]] of this rank; `whole`: [N, all widths], which may
  // begin where `part` does.
  absl::Status AllGather(RowCount rows, std::span<const int> widths,
                         const float* part, float* whole, const Launch& on);

  // The memory that kernels exchange through (exchange.h) if ranks reach each
  // other's memory; otherwise null.
  virtual const PushGroup* push_group() const { return nullptr; }

  // The error of an exchange. It names the rank whose data did not arrive,
  // where that is known; from then on results are wrong. To be called when the
  // queued work has completed.
  virtual absl::Status status() const = 0;

 protected:
  explicit GpuCollectives(Rank rank) : rank_(rank) {}
  Rank rank() const { return rank_; }

 private:
  // REQUIRES: rows first_row .. first_row + num_rows - 1 fit kSlotBytes.
  virtual absl::Status ReduceRows(const AllReduceAddNormParams& params,
                                  int first_row, int num_rows,
                                  const Launch& on) = 0;
  // `widths` are those of all ranks.
  virtual absl::Status GatherRows(const GatherRange& range,
                                  std::span<const int> widths,
                                  const Launch& on) = 0;

  const Rank rank_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_GPU_COLLECTIVES_H_
