// Verification of trees of up to 128 nodes with many heads: one block per
// streaming multiprocessor processes heads one after another.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_LONG_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_LONG_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyLong() supports a problem that GdnVerifyFused() supports,
// and is faster: trees of more than 64 nodes, more than 64 heads, and a GPU of
// sm_90a.
bool CanVerifyLong(const GdnCoreParams& params, int max_nodes,
                   const Launch& on);

// Computes O of every node (Eq. 2) without storing U, by the formula that
// GdnVerifyBatched() uses for smaller trees: O = D_P Q S + C (I + G)^-1 R. The
// states and the topology must be from before the forward pass, because they
// are read without waiting for the previous kernel.
absl::Status GdnVerifyLong(const GdnCoreParams& params, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_LONG_H_
