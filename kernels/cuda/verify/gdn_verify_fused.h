// Verification of trees in one launch on tensor cores.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FUSED_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FUSED_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyFused() takes the problem: bfloat16, keys and values of 128,
// block substitution, masks of at most 128 nodes, on a GPU with enough shared
// memory for them.
bool CanVerifyFused(const GdnCoreParams& params, const Launch& on);

// Room for so many nodes a tree.
int FusedNodes(const RowBatch& batch);

// O of every node (Eq. 2), U not stored. Differs from the exact result by about
// 1e-5 of its size before it is rounded to bfloat16. A tree has at most 128
// nodes. Reads the state, q, k and v once for each value head.
absl::Status GdnVerifyFused(const GdnCoreParams& params, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FUSED_H_
