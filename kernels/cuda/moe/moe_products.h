// The products of a mixture of experts on tensor cores, for few rows.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_PRODUCTS_H_
#define BOLE_KERNELS_CUDA_MOE_MOE_PRODUCTS_H_

#include "absl/status/status.h"
#include "kernels/cuda/moe/moe_kernels.h"

namespace bole::cuda {

// Whether the task is in bfloat16, with sizes that tiles divide.
bool CanTileMoe(const MoeTask& task, const Launch& on);

// Like the plain kernels of the same names (moe_kernels.cu), except that
// `inner` is bfloat16, [N P, max_width]. A block of weights is read once for up
// to 32 rows of its expert. REQUIRES: CanTileMoe().
absl::Status LaunchMoeLogits(const MoeTask& task, const Launch& on);
absl::Status LaunchMoeGateUp(const MoeTask& task, const Launch& on);
absl::Status LaunchMoeDown(const MoeTask& task, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_PRODUCTS_H_
