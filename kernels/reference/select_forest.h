#ifndef BOLE_KERNELS_REFERENCE_SELECT_FOREST_H_
#define BOLE_KERNELS_REFERENCE_SELECT_FOREST_H_

#include "kernels/drafting.h"

namespace bole::reference {

// The contract is in kernels/drafting.h.
void SelectForest(const SelectForestParams& params);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_SELECT_FOREST_H_
