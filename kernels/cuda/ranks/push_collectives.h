// Collectives of GPUs that write into each other's memory.
#ifndef BOLE_KERNELS_CUDA_RANKS_PUSH_COLLECTIVES_H_
#define BOLE_KERNELS_CUDA_RANKS_PUSH_COLLECTIVES_H_

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/communicator.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/ranks/gpu_collectives.h"

namespace bole::cuda {

// As GpuCollectives::Create(). A GPU waits for another one's part for
// `deadline` at most; then status() is DEADLINE_EXCEEDED.
absl::StatusOr<std::unique_ptr<GpuCollectives>> MakePushCollectives(
    int device, std::chrono::milliseconds deadline, Communicator& ranks,
    const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_PUSH_COLLECTIVES_H_
