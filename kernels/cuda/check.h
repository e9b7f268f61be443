// CUDA's errors as absl::Status.
#ifndef BOLE_KERNELS_CUDA_CHECK_H_
#define BOLE_KERNELS_CUDA_CHECK_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cuda_runtime_api.h"

namespace bole::cuda {

// OK, or INTERNAL with what was tried and CUDA's description of the error.
inline absl::Status ToStatus(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(absl::string_view(what.data(), what.size()), ": ",
                   cudaGetErrorName(error), ": ", cudaGetErrorString(error)));
}

// Called after a launch; says whether it was accepted.
inline absl::Status LaunchStatus(std::string_view what) {
  return ToStatus(cudaGetLastError(), what);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_CHECK_H_
