// Verification node by node, with a snapshot of every node's state.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_WALK_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_WALK_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Implements kSerial with factors.node_states: walks the nodes in order, starts
// each from its parent's snapshot and writes its own. A path's states have the
// same bits as when the path is decoded. UNIMPLEMENTED for keys wider than 256.
// COST: a state is written for every node, and one is read for every node whose
// parent is not the previous node.
absl::Status GdnVerifyWalk(const GdnCoreParams& params, const Launch& on);

// Sets the states of the slots to the snapshots of the last row of every path.
absl::Status GdnCommitSnapshots(const GdnCommitParams& params,
                                const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_WALK_H_
