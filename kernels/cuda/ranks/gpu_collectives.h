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

// One rank's end. Every kind gives the same bits, on every rank, and all ranks
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
  virtual ~GpuCollectives() = default;

  // Queued, as the operators. UNIMPLEMENTED for widths that CheckReduceWidth()
  // refuses.
  absl::Status AllReduceAddNorm(const AllReduceAddNormParams& params,
                                const Launch& on);
  // `part`: [N, widths[rank]] of this rank; `whole`: [N, all widths], which may
  // begin where `part` does.
  absl::Status AllGather(RowCount rows, std::span<const int> widths,
                         const float* part, float* whole, const Launch& on);

  // What kernels exchange through (exchange.h), where ranks reach each other's
  // memory; else null.
  virtual const PushGroup* push_group() const { return nullptr; }

  // The error of an exchange, which names the rank that did not come where that
  // is known: from then on results are wrong. To be asked when what was queued
  // has been done.
  virtual absl::Status status() const = 0;

 protected:
  explicit GpuCollectives(Rank rank) : rank_(rank) {}
  Rank rank() const { return rank_; }

 private:
  // Rows first_row .. first_row + num_rows - 1, which fit kSlotBytes.
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
