// Verification of trees of up to 128 nodes with short paths and many heads: one
// block for each multiprocessor, which has heads one after another.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_PATHS_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_PATHS_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyPaths() takes a problem that GdnVerifyFused() takes, and is
// the faster way: as CanVerifyLong(), where no path has more than 16 nodes
// (RowBatch::max_path).
bool CanVerifyPaths(const GdnCoreParams& params, int max_nodes,
                    const Launch& on);

// As GdnVerifyLong(). A longer path stops the kernel, and with it the GPU's
// context.
absl::Status GdnVerifyPaths(const GdnCoreParams& params, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_PATHS_H_
