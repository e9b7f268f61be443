// Mixtures of experts: the device memory that they need beside their weights.
#ifndef BOLE_KERNELS_CUDA_MOE_H_
#define BOLE_KERNELS_CUDA_MOE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/moe_kernels.h"
#include "kernels/cuda/operators.h"
#include "kernels/dense.h"
#include "kernels/tensor.h"

namespace bole::cuda {

// Runs mixtures, and keeps what it allocates for its own lifetime: where the
// experts of each router are, found at its first use, and scratch for the
// largest call so far, about 4 (K + 1) (H + max(m, ms)) bytes for each row of
// the capacity.
//
// A launch that is captured can allocate nothing: before capture, run once with
// every router and with the largest capacity. Scratch that became too small
// stays, because graphs captured before still write to it.
//
// One thread at a time. The weights must outlive it.
class MoeRunner {
 public:
  // INVALID_ARGUMENT if the experts' sizes do not fit together, UNIMPLEMENTED
  // if there are more than kMaxMoeExperts, FAILED_PRECONDITION if memory would
  // have to be allocated within a capture, RESOURCE_EXHAUSTED without memory.
  absl::Status Run(const MoeParams& params, const Launch& on);

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  using Memory = std::unique_ptr<void, Free>;
  struct Set {
    MoeExperts experts;
    Memory pointers;
  };

  static absl::StatusOr<Memory> Allocate(size_t bytes, const Launch& on);
  absl::StatusOr<const MoeExperts*> ExpertsOf(const MoeParams& params,
                                              const Launch& on);
  absl::StatusOr<MoeScratch> ScratchFor(const MoeTask& task, const Launch& on);

  std::map<const WeightMatrix*, Set> sets_;  // By router.
  std::vector<Memory> scratch_;              // The last one is the largest.
  size_t scratch_bytes_ = 0;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_MOE_H_
