// Quantises matrices, once, when a model is loaded.
#include "kernels/cuda/products/int7_matrix.h"

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/int7.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 4096;

// Returns the largest `x` of the warp to every lane.
__device__ float WarpMax(float x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  }
  return x;
}

// Each warp takes one row.
template <typename T>
__global__ void ScaleKernel(const T* from, Int7Matrix to, int32_t* bad_row) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) / 32;
  if (row >= to.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float largest = 0;
  for (int c = lane; c < to.columns; c += 32) {
    const float w = ToFloat(from[static_cast<int64_t>(row) * to.columns + c]);
    if (!isfinite(w)) *bad_row = row;
    largest = fmaxf(largest, fabsf(w));
  }
  largest = WarpMax(largest);
  if (lane == 0) to.scale[row] = Int7Scale(largest);
}

// Each thread writes 4 bytes at a time.
template <typename T>
__global__ void QuantizeKernel(T* elements, Int7Matrix to,
                               const int32_t* bad_row) {
  if (*bad_row >= 0) return;
  const int strips = StripsOf(to.rows);
  const int64_t words =
      static_cast<int64_t>(strips) * PiecesOf(to.columns) * (kUnitBytes / 4);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       i < words; i += step) {
    const int64_t unit = i / (kUnitBytes / 4);
    const int lane = static_cast<int>(i % (kUnitBytes / 4)) / 4;
    const int strip = static_cast<int>(unit % strips);
    const int piece = static_cast<int>(unit / strips);
    const int row = strip * kStripRows + lane / 4;
    const int column =
        piece * kPieceColumns + lane % 4 * 8 + static_cast<int>(i % 4) * 2;
    uint32_t word = 0;
    for (int byte = 0; byte < 4; ++byte) {
      const int r = row + byte / 2 * 8;
      const int c = column + byte % 2;
      int q = 0;
      if (r < to.rows && c < to.columns) {
        T& w = elements[static_cast<int64_t>(r) * to.columns + c];
        q = QuantizedInt7(ToFloat(w), to.scale[r]);
        w = FromFloat<T>(to.scale[r] * static_cast<float>(q));
      }
      word |= static_cast<uint32_t>(q + kInt7Zero) << (8 * byte);
    }
    reinterpret_cast<uint32_t*>(to.data)[i] = word;
  }
}

}  // namespace

absl::Status QuantizeInt7(void* elements, const Int7Matrix& to,
                          int32_t* bad_row, const Launch& on) {
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    T* const typed = static_cast<T*>(elements);
    const int row_blocks = (to.rows * 32LL + kThreads - 1) / kThreads;
    ScaleKernel<T><<<row_blocks, kThreads, 0, on.stream>>>(typed, to, bad_row);
    QuantizeKernel<T>
        <<<kMaxBlocks, kThreads, 0, on.stream>>>(typed, to, bad_row);
  });
  return LaunchStatus("quantising a matrix");
}

}  // namespace bole::cuda
