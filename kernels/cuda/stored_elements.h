// Converts the stored elements of a checkpoint to those of the GPU.
#ifndef BOLE_KERNELS_CUDA_STORED_ELEMENTS_H_
#define BOLE_KERNELS_CUDA_STORED_ELEMENTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cuda_runtime_api.h"
#include "kernels/matrix_source.h"
#include "kernels/tensor.h"

namespace bole::cuda {

// Whether the GPU's elements have the same bits, so that nothing is converted.
constexpr bool IsStoredAs(ElementType type, SourceType source) {
  return type == ElementType::kFloat32 ? source == SourceType::kFloat32
                                       : source == SourceType::kBFloat16;
}

// `from` [count] is in pinned memory, which the kernel reads over the bus, or
// on the device; `to` [count] is on the device. Both are aligned to their
// elements.
struct ConvertParams {
  SourceType source;
  const void* from;
  ElementType type;
  void* to;
  int64_t count;  // At least 1.
};

// Converts as WeightStore::LoadMatrix() says: exactly, or to the nearest
// bfloat16.
absl::Status ConvertElements(const ConvertParams& params, cudaStream_t stream);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_STORED_ELEMENTS_H_
