// Generates matrices of synthetic checkpoints, with four elements per thread.
#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/generated_element.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxGridY = 65535;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    GenerateKernel(const __grid_constant__ MatrixGenerator g, T* out) {
  const int block = blockIdx.x * kThreads + threadIdx.x;
  const int column = block * kElementBlock;
  const int columns = PartColumns(g);
  if (column >= columns) return;
  for (int row = blockIdx.y; row < PartRows(g); row += gridDim.y) {
    const ElementBlock elements =
        Elements(g, WholeRow(g, row), WholeBlock(g, block));
    T* to = out + static_cast<int64_t>(row) * columns + column;
#pragma unroll
    for (int i = 0; i < kElementBlock; ++i) {
      if (column + i < columns) to[i] = FromFloat<T>(elements.value[i]);
    }
  }
}

}  // namespace

absl::Status Generate(const MatrixGenerator& generator, void* out,
                      const Launch& on) {
  constexpr int kColumns = kThreads * kElementBlock;
  const dim3 grid((PartColumns(generator) + kColumns - 1) / kColumns,
                  std::min(PartRows(generator), kMaxGridY));
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    GenerateKernel<T>
        <<<grid, kThreads, 0, on.stream>>>(generator, static_cast<T*>(out));
  });
  return LaunchStatus("Generate");
}

}  // namespace bole::cuda
