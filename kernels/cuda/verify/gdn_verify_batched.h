// Verification of trees with many heads. There is one block for each
// multiprocessor, which processes heads one after another; for small trees,
// there are blocks of half a head.
#ifndef BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_BATCHED_H_
#define BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_BATCHED_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether GdnVerifyBatched() supports a problem that GdnVerifyFused() supports,
// and is faster: more than 64 heads, trees of at most 64 nodes, a GPU of
// sm_90a.
bool CanVerifyBatched(const GdnCoreParams& params, int max_nodes,
                      const Launch& on);

// Computes O of every node (Eq. 2) without storing U:
// O = D_P Q S + C (I + G)^-1 R. It is as exact as GdnVerifyFused(). No tree has
// more than max_nodes nodes. It reads the state and v once for each value head,
// and q and k once for a key head's value heads, more often where that balances
// the blocks, and twice for a value head of small trees. States and topology
// are read without a wait for the previous kernel, so they must have been
// written before the forward pass.
absl::Status GdnVerifyBatched(const GdnCoreParams& params, int max_nodes,
                              const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_GDN_VERIFY_BATCHED_H_
