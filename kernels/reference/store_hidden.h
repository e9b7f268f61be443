#ifndef BOLE_KERNELS_REFERENCE_STORE_HIDDEN_H_
#define BOLE_KERNELS_REFERENCE_STORE_HIDDEN_H_

#include "kernels/drafting.h"

namespace bole::reference {

// The contract is in kernels/drafting.h.
void StoreHidden(const StoreHiddenParams& params);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_STORE_HIDDEN_H_
