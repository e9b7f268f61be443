// Verification of the trees of few requests in one launch, alone or together
// with the operators before and after it in its layer.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FEW_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FEW_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyFew() supports the problem: bfloat16, keys and values of 128
// dimensions, block substitution, trees of at most 64 nodes, and at most 64
// value heads in all requests together.
bool CanVerifyFew(const GdnCoreParams& params, const Launch& on);

// Whether GdnVerifyAlone() supports the problem and is faster than
// GdnVerifyFew(): as above, with room for 33 to 64 nodes per tree, at most 32
// value heads in all requests together, and on Hopper.
bool CanVerifyAlone(const GdnCoreParams& params, const Launch& on);

// Does what GdnVerifyFused() does, spread over more of the GPU.
absl::Status GdnVerifyFew(const GdnCoreParams& params, const Launch& on);

// Whether GdnVerifyLayer() supports the layer: as for GdnVerifyFew(), on a GPU
// with clusters. With more heads, the three operators one by one are faster.
bool CanVerifyLayer(const GdnVerifyLayerParams& params, const Launch& on);

// kernels/gdn.h. The factors have the bits of GdnConv().
absl::Status GdnVerifyLayer(const GdnVerifyLayerParams& params,
                            const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FEW_H_
