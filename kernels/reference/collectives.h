#ifndef BOLE_KERNELS_REFERENCE_COLLECTIVES_H_
#define BOLE_KERNELS_REFERENCE_COLLECTIVES_H_

#include "absl/status/status.h"
#include "kernels/collectives.h"
#include "kernels/communicator.h"

namespace bole::reference {

// The contracts are in kernels/collectives.h. `ranks` is null with one rank.
// Errors are the communicator's; values are then undefined.
absl::Status AllReduceAddNorm(const AllReduceAddNormParams& params,
                              Communicator* ranks);
absl::Status AllGather(const AllGatherParams& params, Communicator* ranks);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_COLLECTIVES_H_
