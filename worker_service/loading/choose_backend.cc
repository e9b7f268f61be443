#include "worker_service/loading/choose_backend.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/reference/reference_backend.h"
#ifdef BOLE_WITH_CUDA
#include "kernels/cuda/cuda_backend.h"
#endif

namespace bole {
namespace {

constexpr char kAuto[] = "auto";
constexpr char kCpu[] = "cpu";
constexpr char kCuda[] = "cuda";

// One GPU, from which the ranks count up, or a GPU for each rank.
struct GpuNames {
  std::vector<int> gpus;
  ElementType type = ElementType::kBFloat16;

  // The GPU of a rank. No other function decides which rank is on which GPU.
  absl::StatusOr<int> Of(Rank rank) const {
    if (gpus.size() == 1) return gpus[0] + rank.index;
    if (std::ssize(gpus) == rank.count) {
      return gpus[static_cast<size_t>(rank.index)];
    }
    return absl::InvalidArgumentError(
        absl::StrCat(gpus.size(), " GPUs for ", rank.count,
                     rank.count == 1 ? " rank" : " ranks"));
  }
};

#ifdef BOLE_WITH_CUDA
absl::StatusOr<std::unique_ptr<Backend>> Gpu(
    int gpu, ElementType type, int num_threads,
    const std::shared_ptr<Communicator>& ranks, CollectivesKind collectives) {
  BOLE_ASSIGN_OR_RETURN(
      std::unique_ptr<cuda::CudaBackend> backend,
      cuda::CudaBackend::Create(gpu, type, num_threads,
                                {.ranks = ranks, .collectives = collectives}));
  return backend;
}
#else
absl::StatusOr<std::unique_ptr<Backend>> Gpu(
    int /*gpu*/, ElementType /*type*/, int /*num_threads*/,
    const std::shared_ptr<Communicator>& /*ranks*/,
    CollectivesKind /*collectives*/) {
  return absl::UnavailableError(
      "this program was built without CUDA: no toolkit was found");
}
#endif

// The backend that "auto" prefers.
absl::StatusOr<std::unique_ptr<Backend>> FirstGpu(int num_threads) {
  return Gpu(/*gpu=*/0, ElementType::kBFloat16, num_threads, /*ranks=*/nullptr,
             CollectivesKind::kPush);
}

absl::Status NoDevice(const std::string& device) {
  return absl::InvalidArgumentError(absl::StrCat(
      "device is \"", device,
      "\", not cpu, cuda, cuda:N, cuda:N,M, cuda:N:float32 or auto"));
}

// Parses the rest of a name after "cuda": nothing, ":N", ":N,M" or
// ":N:float32".
absl::StatusOr<GpuNames> ParseGpus(const std::string& device) {
  std::string_view rest =
      std::string_view(device).substr(std::string_view(kCuda).size());
  GpuNames names;
  constexpr std::string_view kFloat32 = ":float32";
  if (rest.ends_with(kFloat32)) {
    names.type = ElementType::kFloat32;
    rest.remove_suffix(kFloat32.size());
  }
  if (rest.empty()) {
    names.gpus = {0};
    return names;
  }
  if (rest[0] != ':') return NoDevice(device);
  const std::string numbers(rest.substr(1));
  for (const absl::string_view number : absl::StrSplit(numbers, ',')) {
    int gpu = 0;
    if (!absl::SimpleAtoi(number, &gpu) || gpu < 0) return NoDevice(device);
    if (absl::c_linear_search(names.gpus, gpu)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "device is \"", device, "\", which has GPU ", gpu, " twice"));
    }
    names.gpus.push_back(gpu);
  }
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> ChooseBackend(
    const std::string& device, int num_threads,
    std::shared_ptr<Communicator> ranks, CollectivesKind collectives) {
  BOLE_CHECK(device != kAuto || ranks == nullptr);
  if (device == kAuto) {
    absl::StatusOr<std::unique_ptr<Backend>> gpu = FirstGpu(num_threads);
    if (gpu.ok() || !absl::IsUnavailable(gpu.status())) return gpu;
  }
  if (device == kAuto || device == kCpu) {
    return std::make_unique<ReferenceBackend>(num_threads, std::move(ranks));
  }
  if (!IsGpu(device)) return NoDevice(device);
  BOLE_ASSIGN_OR_RETURN(const GpuNames names, ParseGpus(device));
  BOLE_ASSIGN_OR_RETURN(const int gpu,
                        names.Of(ranks == nullptr ? Rank{} : ranks->rank()));
  return Gpu(gpu, names.type, num_threads, ranks, collectives);
}

absl::StatusOr<std::string> ResolveDevice(const std::string& device) {
  if (device != kAuto) return device;
  const absl::Status gpu = FirstGpu(/*num_threads=*/1).status();
  if (gpu.ok()) return std::string(kCuda);
  if (absl::IsUnavailable(gpu)) return std::string(kCpu);
  return gpu;
}

void AddCollectivesFlag(CommandLine& command, CollectivesKind& kind) {
  command.AddChoice(
      "--collectives", kind,
      {{"push", CollectivesKind::kPush}, {"nccl", CollectivesKind::kNccl}},
      "how GPUs exchange what they compute together: kernels that write into "
      "each other's memory, or NCCL");
}

bool IsGpu(const std::string& device) {
  return std::string_view(device).starts_with(kCuda);
}

}  // namespace bole
