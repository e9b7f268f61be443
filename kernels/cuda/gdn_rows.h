// The recurrence over all the rows of a batch of chains.
#ifndef BOLE_KERNELS_CUDA_GDN_ROWS_H_
#define BOLE_KERNELS_CUDA_GDN_ROWS_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Row after row: writes `out` of every row, and moves the states on by all of
// them. `what` names the operator in errors. UNIMPLEMENTED for keys wider than
// 256.
// COST: one read and write of the states, and a pass over a head's tile of the
// state in registers for each row, one after the other.
absl::Status RunRows(const char* what, const GdnCoreParams& params,
                     const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_ROWS_H_
