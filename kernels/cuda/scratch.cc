#include "kernels/cuda/scratch.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {

void Scratch::Free::operator()(void* memory) const { cudaFree(memory); }

absl::Status Scratch::Reserve(size_t bytes) {
  is_reserved_ = true;
  return bytes <= bytes_ ? absl::OkStatus() : Grow(bytes);
}

absl::StatusOr<void*> Scratch::Get(size_t bytes, const Launch& on) {
  if (bytes == 0) return nullptr;
  if (bytes <= bytes_) return memory_.back().get();
  if (is_reserved_) {
    return absl::FailedPreconditionError(
        absl::StrCat("an operator needs ", bytes, " bytes of scratch; ", bytes_,
                     " are reserved"));
  }
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaStreamIsCapturing(on.stream, &capture), "state of capture"));
  if (capture != cudaStreamCaptureStatusNone) {
    return absl::FailedPreconditionError(absl::StrCat(
        "an operator needs ", bytes, " bytes of scratch within a capture"));
  }
  BOLE_RETURN_IF_ERROR(Grow(bytes));
  return memory_.back().get();
}

absl::Status Scratch::Grow(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();  // Reported here, so the next launch must not.
    return absl::ResourceExhaustedError(
        absl::StrCat("no room on the GPU for ", bytes,
                     " bytes of scratch: ", cudaGetErrorString(error)));
  }
  memory_.emplace_back(memory);
  bytes_ = bytes;
  return absl::OkStatus();
}

}  // namespace bole::cuda
