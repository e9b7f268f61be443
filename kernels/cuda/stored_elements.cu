// Converts stored elements to the GPU's, one element per thread. The conversion
// works on their bits, so that the results equal those of the host.
#include "kernels/cuda/stored_elements.h"

#include "kernels/cuda/check.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;

// The bits of a float32.
template <SourceType kSource>
__device__ uint32_t ReadElement(const void* from, int64_t i) {
  if constexpr (kSource == SourceType::kFloat32) {
    return static_cast<const uint32_t*>(from)[i];
  } else {
    const uint16_t stored = static_cast<const uint16_t*>(from)[i];
    return kSource == SourceType::kBFloat16 ? WidenBFloat16(stored)
                                            : WidenFloat16(stored);
  }
}

template <ElementType kType>
__device__ void WriteElement(uint32_t bits, void* to, int64_t i) {
  if constexpr (kType == ElementType::kFloat32) {
    static_cast<uint32_t*>(to)[i] = bits;
  } else {
    static_cast<uint16_t*>(to)[i] = RoundToBFloat16(bits);
  }
}

template <SourceType kSource, ElementType kType>
__global__ void __launch_bounds__(kThreads)
    ConvertKernel(const void* from, void* to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) WriteElement<kType>(ReadElement<kSource>(from, i), to, i);
}

template <SourceType kSource>
void Launch(const ConvertParams& p, cudaStream_t stream) {
  const auto blocks =
      static_cast<unsigned>((p.count + kThreads - 1) / kThreads);
  if (p.type == ElementType::kFloat32) {
    ConvertKernel<kSource, ElementType::kFloat32>
        <<<blocks, kThreads, 0, stream>>>(p.from, p.to, p.count);
  } else {
    ConvertKernel<kSource, ElementType::kBFloat16>
        <<<blocks, kThreads, 0, stream>>>(p.from, p.to, p.count);
  }
}

}  // namespace

absl::Status ConvertElements(const ConvertParams& params, cudaStream_t stream) {
  switch (params.source) {
    case SourceType::kFloat32:
      Launch<SourceType::kFloat32>(params, stream);
      break;
    case SourceType::kBFloat16:
      Launch<SourceType::kBFloat16>(params, stream);
      break;
    case SourceType::kFloat16:
      Launch<SourceType::kFloat16>(params, stream);
      break;
  }
  return LaunchStatus("ConvertElements");
}

}  // namespace bole::cuda
