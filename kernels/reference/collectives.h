#ifndef BOLE_KERNELS_REFERENCE_COLLECTIVES_H_
#define BOLE_KERNELS_REFERENCE_COLLECTIVES_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/collectives.h"
#include "kernels/communicator.h"
#include "kernels/tensor.h"

namespace bole::reference {

// The contracts are in kernels/collectives.h. `ranks` is null with one rank.
// Errors are the communicator's; values are then undefined.
absl::Status AllReduceAddNorm(const AllReduceAddNormParams& params,
                              Communicator* ranks);
absl::Status AllGather(const AllGatherParams& params, Communicator* ranks);

// [N, W]: what AllGather would leave of this rank's part, [N, widths[rank]].
absl::StatusOr<std::vector<float>> WholeRows(RowCount rows,
                                             std::span<const int> widths,
                                             const float* part,
                                             Communicator& ranks);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_COLLECTIVES_H_
