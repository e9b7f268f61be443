// The memory, copies and marks of the GPU backend.
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/graphs.h"

namespace bole::cuda {
namespace {

float FromBFloat16(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

absl::Status CudaBackend::BindThread() {
  return ToStatus(cudaSetDevice(device_), "choice of the GPU");
}

absl::StatusOr<DeviceMemory> CudaBackend::Allocate(size_t bytes,
                                                   std::string_view what) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
  if (error != cudaSuccess) {
    cudaGetLastError();  // Reported here, so the next launch must not.
    return absl::ResourceExhaustedError(
        absl::StrCat("no room on the GPU for ", bytes, " bytes of ",
                     std::string(what), ": ", cudaGetErrorString(error)));
  }
  return DeviceMemory(memory, DeviceDeleter{this});
}

void CudaBackend::Free(void* memory) {
  const size_t num_shared = std::erase_if(
      shared_, [&](const auto& arena) { return arena->Has(memory); });
  if (num_shared == 0) cudaFree(memory);
}

absl::StatusOr<HostMemory> CudaBackend::AllocateHost(size_t bytes,
                                                     std::string_view what) {
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, bytes > 0 ? bytes : 1);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("no room in pinned memory for ", bytes, " bytes of ",
                     std::string(what), ": ", cudaGetErrorString(error)));
  }
  return HostMemory(memory, HostDeleter{this});
}

void CudaBackend::FreeHost(void* memory) { cudaFreeHost(memory); }

std::optional<MemoryState> CudaBackend::memory() const {
  MemoryState state{};
  if (cudaMemGetInfo(&state.free_bytes, &state.total_bytes) != cudaSuccess) {
    cudaGetLastError();
    return std::nullopt;
  }
  return state;
}

absl::Status CudaBackend::Upload(void* device, const void* host, size_t bytes) {
  return ToStatus(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice,
                                  stream_of_copies()),
                  "copy to the GPU");
}

absl::Status CudaBackend::Download(void* host, const void* device,
                                   size_t bytes) {
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost,
                               stream_of_copies()),
               "copy from the GPU"));
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaStreamSynchronize(on_.stream), "work on the GPU"));
  return CheckRanks();
}

absl::Status CudaBackend::QueueDownload(void* host, const void* device,
                                        size_t bytes) {
  return ToStatus(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost,
                                  stream_of_copies()),
                  "copy from the GPU");
}

absl::Status CudaBackend::CopyDevice(void* to, const void* from, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(to);
  const auto second = reinterpret_cast<uintptr_t>(from);
  BOLE_CHECK(first + bytes <= second || second + bytes <= first);
  return ToStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                  stream_of_copies()),
                  "copy on the GPU");
}

std::unique_ptr<GraphSet> CudaBackend::MakeGraphs(int capacity) {
  return std::make_unique<Graphs>(on_.stream, capacity, queue_state_);
}

absl::Status CudaBackend::SetMark(int mark) {
  return ToStatus(cudaEventRecord(marks_[mark], stream_of_marks()), "mark");
}

absl::Status CudaBackend::AwaitMark(int mark) {
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaEventSynchronize(marks_[mark]), "work on the GPU"));
  return CheckRanks();
}

absl::StatusOr<double> CudaBackend::SecondsBetween(int from, int to) {
  float milliseconds = 0;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaEventElapsedTime(&milliseconds, marks_[from], marks_[to]),
               "time between marks"));
  return milliseconds * 1e-3;
}

absl::Status CudaBackend::DownloadActivations(std::span<float> host,
                                              const Activation* device) {
  if (on_.type == ElementType::kFloat32) {
    return Download(host.data(), device, host.size_bytes());
  }
  std::vector<uint16_t> narrow(host.size());
  BOLE_RETURN_IF_ERROR(
      Download(narrow.data(), device, narrow.size() * sizeof(uint16_t)));
  for (size_t i = 0; i < host.size(); ++i) host[i] = FromBFloat16(narrow[i]);
  return absl::OkStatus();
}

}  // namespace bole::cuda
