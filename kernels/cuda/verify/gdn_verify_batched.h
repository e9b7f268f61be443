// Verification of trees with many heads: one block for each multiprocessor,
// which has heads one after another, or for small trees blocks of half a head.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_BATCHED_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_BATCHED_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyBatched() takes a problem that GdnVerifyFused() takes, and
// is the faster way: more than 64 heads, trees of at most 64 nodes, a GPU of
// sm_90a.
bool CanVerifyBatched(const GdnCoreParams& params, int max_nodes,
                      const Launch& on);

// O of every node (Eq. 2), U not stored: O = D_P Q S + C (I + G)^-1 R. As exact
// as GdnVerifyFused(). No tree has more than max_nodes. Reads the state and v
// once for each value head, q and k once for a key head's value heads, oftener
// where that makes blocks more equal, and twice for a value head of small
// trees. The states and the topology must be from before the forward pass: they
// are read without a wait for the kernel before.
absl::Status GdnVerifyBatched(const GdnCoreParams& params, int max_nodes,
                              const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_BATCHED_H_
