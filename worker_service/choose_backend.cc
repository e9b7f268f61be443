#include "worker_service/choose_backend.h"

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/reference/reference_backend.h"
#ifdef BOLE_WITH_CUDA
#include "kernels/cuda/cuda_backend.h"
#endif

namespace bole {
namespace {

constexpr std::string_view kCuda = "cuda";

#ifdef BOLE_WITH_CUDA
absl::StatusOr<std::unique_ptr<Backend>> Gpu(int index, ElementType type) {
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<cuda::CudaBackend> backend,
                        cuda::CudaBackend::Create(index, type));
  return backend;
}
#else
absl::StatusOr<std::unique_ptr<Backend>> Gpu(int /*index*/,
                                             ElementType /*type*/) {
  return absl::UnavailableError(
      "this program was built without CUDA: no toolkit was found");
}
#endif

// What follows "cuda": nothing, ":N" or ":N:float32".
absl::StatusOr<std::unique_ptr<Backend>> GpuOf(const std::string& device) {
  std::string_view rest = std::string_view(device).substr(kCuda.size());
  ElementType type = ElementType::kBFloat16;
  constexpr std::string_view kFloat32 = ":float32";
  if (rest.ends_with(kFloat32)) {
    type = ElementType::kFloat32;
    rest.remove_suffix(kFloat32.size());
  }
  if (rest.empty()) return Gpu(0, type);
  int index = 0;
  const std::string number(rest.substr(1));
  if (rest[0] != ':' || !absl::SimpleAtoi(number, &index) || index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device is \"", device,
                     "\", not cpu, cuda, cuda:N, cuda:N:float32 or auto"));
  }
  return Gpu(index, type);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> ChooseBackend(
    const std::string& device, int num_threads) {
  if (device == "auto") {
    absl::StatusOr<std::unique_ptr<Backend>> gpu =
        Gpu(0, ElementType::kBFloat16);
    if (gpu.ok() || !absl::IsUnavailable(gpu.status())) return gpu;
  }
  if (device == "auto" || device == "cpu") {
    return std::make_unique<ReferenceBackend>(num_threads);
  }
  if (!std::string_view(device).starts_with(kCuda)) {
    return absl::InvalidArgumentError(
        absl::StrCat("device is \"", device,
                     "\", not cpu, cuda, cuda:N, cuda:N:float32 or auto"));
  }
  return GpuOf(device);
}

}  // namespace bole
