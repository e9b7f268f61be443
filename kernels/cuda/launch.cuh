// Launches that overlap the end of the previous kernel (programmatic dependent
// launch, sm_90 and later; elsewhere plain launches).
#ifndef BOLE_KERNELS_CUDA_LAUNCH_CUH_
#define BOLE_KERNELS_CUDA_LAUNCH_CUH_

#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "cuda_runtime.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  // Dynamic.
  int cluster = 1;          // Blocks of a cluster, along x; sm_90 and later.
};

// Launches `kernel` so that its blocks may start before the previous kernel has
// ended: as soon as all blocks of that one have called StartNext() or returned.
// Each thread of `kernel` that touches memory which other kernels write or read
// must call WaitForPrevious() first. Before that call it may only read data
// that no kernel ever writes (weights, tables), and in a forward pass also data
// written before the pass (topology, states, windows, committed keys and
// values), because the pass's first kernel (Embed, DraftInputs) waits before it
// calls StartNext(). The wait is transitive: a kernel that has ended has waited
// for all kernels before it.
template <typename... Params, typename... Args>
absl::Status LaunchDependent(std::string_view what, void (*kernel)(Params...),
                             const LaunchShape& shape, const Launch& on,
                             Args&&... args) {
  cudaLaunchAttribute attributes[3] = {};
  int count = 0;
  if (on.overlaps) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  // All kernels use the same split of a multiprocessor's memory into L1 and
  // shared memory: one with more L1 would have to wait until the others have
  // left.
  attributes[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attributes[count++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(shape.cluster),
                                          1, 1};
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = on.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return ToStatus(
      cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...), what);
}

// Waits until the previous kernels have ended and their writes are visible.
// Returns at once in a plain launch.
__device__ inline void WaitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel start once all blocks have called this. It does not
// order memory: the next kernel waits for the end of this one before it reads.
//
// An early start is not always better. The loads of the next kernel delay those
// that this one still waits for. And if this kernel fills some multiprocessors,
// the blocks of a product after it would go to the others, two to each, and the
// product and those after it would take a fifth longer; such a kernel does not
// call this.
__device__ inline void StartNext() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_LAUNCH_CUH_
