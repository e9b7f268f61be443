#ifndef BOLE_KERNELS_REFERENCE_ADVANCE_REQUESTS_H_
#define BOLE_KERNELS_REFERENCE_ADVANCE_REQUESTS_H_

#include "kernels/drafting.h"

namespace bole::reference {

// The contract is in kernels/drafting.h.
void AdvanceRequests(const AdvanceRequestsParams& params);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_ADVANCE_REQUESTS_H_
