// How the streamed products of a mixture share the GPU.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_STREAM_LAUNCH_CUH_
#define BOLE_KERNELS_CUDA_MOE_MOE_STREAM_LAUNCH_CUH_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/moe/moe_choice.cuh"
#include "kernels/cuda/moe/moe_kernels.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda::moe {

// Shared memory of which a multiprocessor of an H200 has no two: 228 KB, less 1
// KB for each block. A block of the gates and ups has at least so much, so that
// every multiprocessor gets one. What is left is enough for a block of the down
// projection beside it, which fills its ring meanwhile.
inline constexpr int kMoreThanHalf = 113 * 1024 + 512;

// Of a block of the gates and ups.
int StreamedGateUpBytes(const MoeTask& task);

// One block on each multiprocessor, with `bytes` of shared memory.
template <typename Kernel>
absl::Status LaunchStreamed(std::string_view what, Kernel kernel, int bytes,
                            const MoeTask& task, const Launch& on) {
  const absl::Status status =
      ToStatus(cudaFuncSetAttribute(
                   kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               what);
  if (!status.ok()) return status;
  return LaunchDependent(what, kernel,
                         {.grid = dim3(on.multiprocessors),
                          .block = dim3(kStreamThreads),
                          .shared_bytes = static_cast<size_t>(bytes)},
                         on, task);
}

}  // namespace bole::cuda::moe

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_STREAM_LAUNCH_CUH_
