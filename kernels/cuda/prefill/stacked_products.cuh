// Float32 operands of a warpgroup's products, exact to 2^-17 of each element.
// The high parts of 32 rows are in the upper half of a left operand of 64 rows
// and the low parts in the lower half, so that both halves of each sum belong
// to the same thread.
#ifndef BOLE_KERNELS_CUDA_PREFILL_STACKED_PRODUCTS_CUH_
#define BOLE_KERNELS_CUDA_PREFILL_STACKED_PRODUCTS_CUH_

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/prefill/chunk_products.cuh"

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Calls f(0) .. f(kCount - 1), with compile-time constants.
template <typename F, int... kSteps>
__device__ __forceinline__ void ForSteps(
    const F& f, std::integer_sequence<int, kSteps...> /*steps*/) {
  (f(std::integral_constant<int, kSteps>()), ...);
}
template <int kCount, typename F>
__device__ __forceinline__ void ForSteps(const F& f) {
  ForSteps(f, std::make_integer_sequence<int, kCount>());
}

// A thread's elements of a matrix [32, ...]: element 2 j + e is in row Row() of
// the group, column 8 j + Column() + e. In an accumulator [64, ...], where the
// high and the low parts have separate sums, these are 4 j + e and
// 4 j + 2 + e.
__device__ inline int Warp() { return static_cast<int>(threadIdx.x / 32); }
__device__ inline int Row() {
  return Warp() % 4 * 8 + static_cast<int>(threadIdx.x % 32) / 4;
}
__device__ inline int Column() { return static_cast<int>(threadIdx.x) % 4 * 2; }

__device__ inline float2 PairAt(const float* values, int column) {
  return *reinterpret_cast<const float2*>(values + column);
}

// A fragment of 16 columns of x, with the high parts in the upper rows and the
// low parts in the lower rows.
template <int kAt, int kSize>
__device__ __forceinline__ Fragment Stacked(const float (&x)[kSize]) {
  Fragment fragment;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float first = x[kAt + 2 * j];
    const float second = x[kAt + 2 * j + 1];
    const uint32_t high = PackTwo(first, second);
    fragment.word[2 * j] = high;
    fragment.word[2 * j + 1] =
        PackTwo(first - FirstOfTwo(high), second - SecondOfTwo(high));
  }
  return fragment;
}

// The high parts alone.
__device__ __forceinline__ Fragment High(const Fragment& stacked) {
  return {.word = {stacked.word[0], 0, stacked.word[2], 0}};
}

// Sums that start as factor * x, column by column, or as x.
__device__ __forceinline__ void StartSums(const float (&x)[16],
                                          float (&sums)[32]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      sums[4 * j + e] = x[2 * j + e];
      sums[4 * j + 2 + e] = 0;
    }
  }
}

template <int kColumns>
__device__ __forceinline__ void AddHalves(const float (&sums)[kColumns / 2],
                                          float (&x)[kColumns / 4]) {
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      x[2 * j + e] = sums[4 * j + e] + sums[4 * j + 2 + e];
    }
  }
}

// x[., j] * factor[j].
__device__ __forceinline__ void ScaleColumns(const float* factors,
                                             const float (&x)[16],
                                             float (&scaled)[16]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = PairAt(factors, 8 * j + Column());
    scaled[2 * j] = factor.x * x[2 * j];
    scaled[2 * j + 1] = factor.y * x[2 * j + 1];
  }
}

template <int kCount, int kSize>
__device__ __forceinline__ void Stack(const float (&x)[kSize],
                                      Fragment (&fragments)[kCount]) {
  ForSteps<kCount>([&](auto step) {
    constexpr int kStep = decltype(step)::value;
    fragments[kStep] = Stacked<4 * kStep>(x);
  });
}

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PREFILL_STACKED_PRODUCTS_CUH_
