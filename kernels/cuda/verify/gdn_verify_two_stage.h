// Verification of trees as in Sec. IV-B: a producer of G and C, and value
// tiles that apply the finite Neumann series (Eq. 6).
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_TWO_STAGE_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_TWO_STAGE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyTwoStage() supports the problem: kNeumann, bfloat16, keys
// and values 128 wide, trees of at most 128 nodes.
bool CanVerifyTwoStage(const GdnCoreParams& params, const Launch& on);

// The scratch that GdnVerifyTwoStage() needs for G, C and the path decays
// during the call.
size_t TwoStageScratchBytes(const GdnCoreParams& params);

// Computes O of every node (Eq. 2). Its products are in tf32: the error is some
// 3e-4 of the result's size where keys are independent, and far larger where
// they are correlated and the tree is deep, because the terms of the series
// then cancel.
absl::Status GdnVerifyTwoStage(const GdnCoreParams& params, void* scratch,
                               const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_TWO_STAGE_H_
