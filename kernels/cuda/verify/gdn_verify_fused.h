// Verification of trees in one launch on tensor cores.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FUSED_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FUSED_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyFused() supports the problem: bfloat16, keys and values 128
// wide, block substitution, masks of at most 128 nodes, and a GPU with enough
// shared memory for them.
bool CanVerifyFused(const GdnCoreParams& params, const Launch& on);

// The most nodes of a tree that the batch has room for.
int FusedNodes(const RowBatch& batch);

// Computes O of every node (Eq. 2) without storing U. The result differs from
// the exact one by about 1e-5 of its size before it is rounded to bfloat16. A
// tree has at most 128 nodes. Reads the state, q, k and v once for each value
// head.
absl::Status GdnVerifyFused(const GdnCoreParams& params, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FUSED_H_
