// Verification in a launch of its own, for few requests with trees of 33 to 64
// nodes.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_ALONE_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_ALONE_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// REQUIRES: CanVerifyAlone() (gdn_verify_few.h). As exact as GdnVerifyFused().
// States and topology are read without a wait for the previous kernel, so they
// must have been written before the forward pass.
absl::Status GdnVerifyAlone(const GdnCoreParams& params, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_ALONE_H_
