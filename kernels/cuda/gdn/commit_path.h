// The commit of accepted paths in one launch: states, windows, keys and values.
#ifndef BOLE_KERNELS_CUDA_GDN_COMMIT_PATH_H_
#define BOLE_KERNELS_CUDA_GDN_COMMIT_PATH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/attention.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Whether keys have 128 dimensions, values have a multiple of 16, and states
// are replayed rather than copied.
bool CanFoldStates(const GdnCommitParams& params);

// GdnCommitStates: one read and one write of every state. A request whose path
// is empty costs nothing. REQUIRES: CanFoldStates().
//
// num_claimed is on the device and 0 before and after. Only launches that
// follow each other on one stream may share it.
absl::Status FoldStates(const GdnCommitParams& params, int32_t* num_claimed,
                        const Launch& on);

// Whether CommitPath() supports both: states as above, and rows of windows,
// keys and values that are multiples of 16 bytes.
bool CanCommitPath(const GdnCommitParams& linear,
                   const CompactKvParams& attention, const Launch& on);

// GdnCommitStates, GdnCommitWindows and CompactKv. REQUIRES: CanCommitPath(),
// and both have the same batch and path. num_claimed: as above.
absl::Status CommitPath(const GdnCommitParams& linear,
                        const CompactKvParams& attention, int32_t* num_claimed,
                        const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_COMMIT_PATH_H_
