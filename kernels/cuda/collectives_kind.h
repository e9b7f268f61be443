#ifndef BOLE_KERNELS_CUDA_COLLECTIVES_KIND_H_
#define BOLE_KERNELS_CUDA_COLLECTIVES_KIND_H_

namespace bole::cuda {

// How GPUs exchange what ranks compute together.
enum class CollectivesKind {
  kPush,  // Kernels write into each other's memory.
  kNccl,  // The reference, and for GPUs that cannot reach each other.
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_COLLECTIVES_KIND_H_
