// Linear-layer operators for any element type and any shape. They run where the
// fast versions do not apply, and tests compare the fast versions with them.
#ifndef BOLE_KERNELS_CUDA_GDN_GDN_PLAIN_H_
#define BOLE_KERNELS_CUDA_GDN_GDN_PLAIN_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// UNIMPLEMENTED for more than 8 taps.
absl::Status PlainGdnConv(const GdnConvParams& params, const Launch& on);
absl::Status PlainGdnGatedNorm(const GdnGatedNormParams& params,
                               const Launch& on);

// Runs the rows of chains one after the other: writes `out` of every row and
// advances the states by all of them. `what` names the operator in errors.
// UNIMPLEMENTED for keys wider than 256.
// COST: one read and write of the states, and for each row, one after the
// other, a pass over the tile of the state that a warp has in registers.
absl::Status RunRows(const char* what, const GdnCoreParams& params,
                     const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_GDN_PLAIN_H_
