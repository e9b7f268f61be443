// Linear-layer operators for any element and any shape: what runs where the
// fast versions do not fit, and what they are compared with.
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

// Row after row: writes `out` of every row of chains, and moves the states on
// by all of them. `what` names the operator in errors. UNIMPLEMENTED for keys
// wider than 256.
// COST: one read and write of the states, and for each row, one after the
// other, a pass over the tile of the state that a warp has in registers.
absl::Status RunRows(const char* what, const GdnCoreParams& params,
                     const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_GDN_PLAIN_H_
