// Verification of the trees of few requests, alone and with what is before and
// behind it in its layer, in one launch.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FEW_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FEW_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyFew() takes the problem: bfloat16, keys and values of 128,
// block substitution, trees of at most 64 nodes, and 64 value heads of all
// requests together.
bool CanVerifyFew(const GdnCoreParams& params, const Launch& on);

// Whether GdnVerifyAlone() can do it, and faster than GdnVerifyFew(): as above,
// with room for 33 to 64 nodes a tree, 32 value heads of all requests together,
// and on Hopper.
bool CanVerifyAlone(const GdnCoreParams& params, const Launch& on);

// As GdnVerifyFused(), spread over more of the GPU.
absl::Status GdnVerifyFew(const GdnCoreParams& params, const Launch& on);

// The same for a layer, on a GPU with clusters. With more heads the three
// operators are faster.
bool CanVerifyLayer(const GdnVerifyLayerParams& params, const Launch& on);

// kernels/gdn.h. The factors have the bits of GdnConv().
absl::Status GdnVerifyLayer(const GdnVerifyLayerParams& params,
                            const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_FEW_H_
