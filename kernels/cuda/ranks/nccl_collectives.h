// Collectives of GPUs through NCCL.
#ifndef BOLE_KERNELS_CUDA_RANKS_NCCL_COLLECTIVES_H_
#define BOLE_KERNELS_CUDA_RANKS_NCCL_COLLECTIVES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/communicator.h"
#include "kernels/cuda/ranks/gpu_collectives.h"

namespace bole::cuda {

// Like GpuCollectives::Create(). NCCL gathers the ranks' parts; this project's
// kernels add them up. A GPU waits for another one without a time limit.
absl::StatusOr<std::unique_ptr<GpuCollectives>> MakeNcclCollectives(
    Communicator& ranks);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_NCCL_COLLECTIVES_H_
