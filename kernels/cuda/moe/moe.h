// Mixtures of experts, from the weights of a backend.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_H_
#define BOLE_KERNELS_CUDA_MOE_MOE_H_

#include <cstddef>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/moe/moe_kernels.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/scratch.h"
#include "kernels/dense.h"
#include "kernels/tensor.h"

namespace bole::cuda {

// Runs mixtures of experts, and keeps, for its own lifetime, the addresses of
// each router's experts on the GPU. They are copied there at the router's first
// use, which therefore cannot be within a graph capture.
//
// Used by one thread at a time. The weights must outlive it.
class MoeRunner {
 public:
  // About 4 (K + 1) (H + max(m, ms)) bytes for each row of the capacity.
  static size_t ScratchBytes(const MoeParams& params);
  // `scratch` has ScratchBytes(). INVALID_ARGUMENT if the experts' sizes do not
  // fit together, UNIMPLEMENTED if there are more than kMaxMoeExperts.
  absl::Status Run(const MoeParams& params, void* scratch, const Launch& on);

 private:
  struct Set {
    MoeExperts experts;
    Scratch pointers;  // Holds what `experts` points to.
  };

  absl::StatusOr<const MoeExperts*> ExpertsOf(const MoeParams& params,
                                              const Launch& on);

  std::map<const WeightMatrix*, Set> sets_;  // By router.
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_H_
