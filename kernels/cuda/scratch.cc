#include "kernels/cuda/scratch.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {

void Scratch::Free::operator()(void* memory) const { cudaFree(memory); }

absl::StatusOr<void*> Scratch::Get(size_t bytes, const Launch& on) {
  if (bytes == 0) return nullptr;
  if (bytes <= bytes_) return memory_.back().get();
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaStreamIsCapturing(on.stream, &capture), "state of capture"));
  if (capture != cudaStreamCaptureStatusNone) {
    return absl::FailedPreconditionError(absl::StrCat(
        "an operator needs ", bytes, " bytes of scratch within a capture"));
  }
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();  // It is told here, and not by the next launch.
    return absl::ResourceExhaustedError(
        absl::StrCat("no room on the GPU for ", bytes,
                     " bytes of scratch: ", cudaGetErrorString(error)));
  }
  memory_.emplace_back(memory);
  bytes_ = bytes;
  return memory;
}

}  // namespace bole::cuda
