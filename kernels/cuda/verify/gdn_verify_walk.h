// Verification node by node, with a snapshot of every node's state.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_WALK_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_WALK_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// kSerial with factors.node_states: walks the nodes in order, each from its
// parent's snapshot, and writes its own. The bits of a path's states are those
// of decoding the path. UNIMPLEMENTED for keys wider than 256.
// COST: a state written for every node, and one read for every node whose
// parent is not the node before.
absl::Status GdnVerifyWalk(const GdnCoreParams& params, const Launch& on);

// States of the slots := snapshots of the last row of every path.
absl::Status GdnCommitSnapshots(const GdnCommitParams& params,
                                const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_WALK_H_
