// Collectives of GPUs that write into each other's memory.
#ifndef BOLE_KERNELS_CUDA_RANKS_PUSH_COLLECTIVES_H_
#define BOLE_KERNELS_CUDA_RANKS_PUSH_COLLECTIVES_H_

#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/ranks/gpu_collectives.h"
#include "kernels/cuda/ranks/peer_arena.h"
#include "kernels/cuda/ranks/push.h"
#include "kernels/cuda/ranks/reduce_form.h"

namespace bole::cuda {

class PushCollectives final : public GpuCollectives {
 public:
  // Like GpuCollectives::Create(). A GPU waits at most `deadline` for another
  // one's part; after that status() is DEADLINE_EXCEEDED.
  static absl::StatusOr<std::unique_ptr<PushCollectives>> Create(
      int device, std::chrono::milliseconds deadline, Communicator& ranks,
      const Launch& on);

  // Sums take this form from now on; if it is empty, the form that is expected
  // to be faster. All ranks must set the same. For tests and benchmarks.
  void set_reduce_form(std::optional<ReduceForm> form) { form_ = form; }

  const PushGroup* push_group() const override { return &group_; }
  absl::Status status() const override;

 private:
  struct FreeHost {
    void operator()(PushFailure* failure) const;
  };
  using MappedFailure = std::unique_ptr<PushFailure, FreeHost>;

  PushCollectives(Rank rank, std::chrono::milliseconds deadline,
                  std::unique_ptr<PeerArena> arena, MappedFailure failure);
  static absl::StatusOr<MappedFailure> NewFailure();

  absl::Status ReduceRows(const AllReduceAddNormParams& params, int first_row,
                          int num_rows, const Launch& on) override;
  absl::Status GatherRows(const GatherRange& range, std::span<const int> widths,
                          const Launch& on) override;

  const std::chrono::milliseconds deadline_;
  const std::unique_ptr<PeerArena> arena_;
  const MappedFailure failure_;
  PushGroup group_;
  std::optional<ReduceForm> form_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_PUSH_COLLECTIVES_H_
