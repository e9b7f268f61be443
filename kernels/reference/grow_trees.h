#ifndef BOLE_KERNELS_REFERENCE_GROW_TREES_H_
#define BOLE_KERNELS_REFERENCE_GROW_TREES_H_

#include "kernels/drafting.h"

namespace bole::reference {

// The contract is in kernels/drafting.h. Candidate c of level 0 is child c of
// the root; candidate k + (level - 1) * k * k + lane * k + c of a later one is
// child c of the candidate that was in that lane. The batch just run has, at
// level 0, one row per request (the last of its extend pass), and then the rows
// of the lanes.
void GrowTrees(const GrowTreesParams& params);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_GROW_TREES_H_
