// Verification by itself of trees of 33 to 64 nodes of few requests.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_ALONE_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_ALONE_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyAlone() takes a problem that GdnVerifyFew() takes, and is
// the faster way: room for 33 to 64 nodes a tree, 32 value heads of all
// requests together, a GPU of sm_90a.
bool CanVerifyAlone(const GdnCoreParams& params, int max_nodes);

// As exact as GdnVerifyFused(). States and topology are read without a wait for
// the kernel before: they must be from before the forward pass.
absl::Status GdnVerifyAlone(const GdnCoreParams& params, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_ALONE_H_
