// Verification of trees of up to 128 nodes with short paths and many heads: one
// block per streaming multiprocessor processes heads one after another.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_PATHS_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_PATHS_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyPaths() supports a problem that GdnVerifyFused() supports,
// and is faster: the conditions of CanVerifyLong(), and no path of more than 16
// nodes (RowBatch::max_path).
bool CanVerifyPaths(const GdnCoreParams& params, int max_nodes,
                    const Launch& on);

// Computes what GdnVerifyLong() does. A longer path traps in the kernel, which
// also destroys the GPU's context.
absl::Status GdnVerifyPaths(const GdnCoreParams& params, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_PATHS_H_
