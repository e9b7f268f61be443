#include "worker_service/choose_backend.h"

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/reference/reference_backend.h"
#ifdef BOLE_WITH_CUDA
#include "kernels/cuda/cuda_backend.h"
#endif

namespace bole {
namespace {

constexpr char kCpu[] = "cpu";
constexpr char kCuda[] = "cuda";

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

// The one place that knows which rank is on which GPU.
absl::StatusOr<std::unique_ptr<Backend>> GpuOfRank(
    int first, ElementType type, const std::shared_ptr<Communicator>& ranks) {
  if (ranks == nullptr) return Gpu(first, type);
  const Rank rank = ranks->rank();
  return absl::UnimplementedError(
      absl::StrCat("rank ", rank.index, " of ", rank.count, " on GPU ",
                   first + rank.index, ": only a CPU has several ranks"));
}

// What follows "cuda": nothing, ":N" or ":N:float32".
absl::StatusOr<std::unique_ptr<Backend>> GpuOf(
    const std::string& device, const std::shared_ptr<Communicator>& ranks) {
  std::string_view rest =
      std::string_view(device).substr(std::string_view(kCuda).size());
  ElementType type = ElementType::kBFloat16;
  constexpr std::string_view kFloat32 = ":float32";
  if (rest.ends_with(kFloat32)) {
    type = ElementType::kFloat32;
    rest.remove_suffix(kFloat32.size());
  }
  if (rest.empty()) return GpuOfRank(0, type, ranks);
  int index = 0;
  const std::string number(rest.substr(1));
  if (rest[0] != ':' || !absl::SimpleAtoi(number, &index) || index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device is \"", device,
                     "\", not cpu, cuda, cuda:N, cuda:N:float32 or auto"));
  }
  return GpuOfRank(index, type, ranks);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> ChooseBackend(
    const std::string& device, int num_threads,
    std::shared_ptr<Communicator> ranks) {
  BOLE_CHECK(device != "auto" || ranks == nullptr);
  if (device == "auto") {
    absl::StatusOr<std::unique_ptr<Backend>> gpu = GpuOf(kCuda, ranks);
    if (gpu.ok() || !absl::IsUnavailable(gpu.status())) return gpu;
  }
  if (device == "auto" || device == kCpu) {
    return std::make_unique<ReferenceBackend>(num_threads, std::move(ranks));
  }
  if (!IsGpu(device)) {
    return absl::InvalidArgumentError(
        absl::StrCat("device is \"", device,
                     "\", not cpu, cuda, cuda:N, cuda:N:float32 or auto"));
  }
  return GpuOf(device, ranks);
}

absl::StatusOr<std::string> ResolveDevice(const std::string& device) {
  if (device != "auto") return device;
  const absl::Status gpu = GpuOf(kCuda, /*ranks=*/nullptr).status();
  if (gpu.ok()) return std::string(kCuda);
  if (absl::IsUnavailable(gpu)) return std::string(kCpu);
  return gpu;
}

bool IsGpu(const std::string& device) {
  return std::string_view(device).starts_with(kCuda);
}

}  // namespace bole
