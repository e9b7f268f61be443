// The gated delta rule (Eq. 1) for keys of 128, the dimension of every model:
// eight lanes hold a row of the state, so that a warp advances four rows with
// three shuffles instead of one row with five. gdn_recurrence.cuh is for other
// dimensions.
#ifndef BOLE_KERNELS_CUDA_GDN_GDN_STATE_ROWS_CUH_
#define BOLE_KERNELS_CUDA_GDN_GDN_STATE_ROWS_CUH_

#include <cstdint>

#include "cuda_runtime.h"
#include "kernels/cuda/element.cuh"

namespace bole::cuda {

inline constexpr int kStateKeyDim = 128;
inline constexpr int kRowLanes = 8;
inline constexpr int kRowGroups = 32 / kRowLanes;  // Rows a warp holds at once.
inline constexpr int kElements = kStateKeyDim / kRowLanes;

// A lane's elements of a vector over the keys: element 4 i + c is number
// 4 (lane % 8 + 8 i) + c of the vector.
using KeyElements = float[kElements];

__device__ inline int FirstElement(int i) {
  return 4 * (static_cast<int>(threadIdx.x % kRowLanes) + kRowLanes * i);
}

__device__ inline void LoadElements(const float* from, KeyElements& to) {
#pragma unroll
  for (int i = 0; i < kElements / 4; ++i) {
    const float4 x = *reinterpret_cast<const float4*>(from + FirstElement(i));
    to[4 * i] = x.x;
    to[4 * i + 1] = x.y;
    to[4 * i + 2] = x.z;
    to[4 * i + 3] = x.w;
  }
}

// A lane's elements as they are in memory, to load them early and widen them
// later.
template <typename T>
struct RawElements {
  struct alignas(4 * sizeof(T)) Four {
    T value[4];
  };
  Four four[kElements / 4];

  __device__ void Load(const T* from) {
#pragma unroll
    for (int i = 0; i < kElements / 4; ++i) {
      four[i] = *reinterpret_cast<const Four*>(from + FirstElement(i));
    }
  }
  // Multiplies them by `scale`; products are rounded to float32.
  __device__ void Scale(float scale, KeyElements& to) const {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      to[i] = __fmul_rn(ToFloat(four[i / 4].value[i % 4]), scale);
    }
  }
};

template <typename T>
__device__ void LoadScaledElements(const T* from, float scale,
                                   KeyElements& to) {
  RawElements<T> raw;
  raw.Load(from);
  raw.Scale(scale, to);
}

// Returns the sum of products over the eight lanes in each of them. The order
// of the summation is fixed.
__device__ inline float DotOfRow(const KeyElements& a, const KeyElements& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kElements; ++i) sum = __fmaf_rn(a[i], b[i], sum);
#pragma unroll
  for (int offset = kRowLanes / 2; offset > 0; offset /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, offset));
  }
  return sum;
}

// Advances one row by one token. Every rounding is explicit, so that all
// callers get the same bits from the same operands.
__device__ inline void AdvanceRow(KeyElements& state, const KeyElements& k,
                                  float decay, float beta, float v) {
#pragma unroll
  for (int i = 0; i < kElements; ++i) state[i] = __fmul_rn(state[i], decay);
  const float u = __fmul_rn(beta, __fsub_rn(v, DotOfRow(state, k)));
#pragma unroll
  for (int i = 0; i < kElements; ++i) state[i] = __fmaf_rn(u, k[i], state[i]);
}

// kRows rows for each group of eight lanes: row r of the group is
// row(r) of the head's state [value_dim, 128]. Rows at or beyond value_dim are
// zero and not stored.
template <int kRows>
struct StateRows {
  static constexpr int kPerWarp = kRows * kRowGroups;

  int first;      // The warp's first row.
  int value_dim;  // dv
  KeyElements value[kRows];

  __device__ StateRows(int first_row, int num_values)
      : first(first_row), value_dim(num_values) {}

  __device__ int row(int r) const {
    return first + kRowGroups * r +
           static_cast<int>(threadIdx.x % 32) / kRowLanes;
  }
  __device__ void Clear() {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) value[r][i] = 0;
    }
  }
  __device__ void Load(const float* state) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row(r) < value_dim) {
        LoadElements(state + static_cast<int64_t>(row(r)) * kStateKeyDim,
                     value[r]);
      } else {
#pragma unroll
        for (int i = 0; i < kElements; ++i) value[r][i] = 0;
      }
    }
  }
  __device__ void Store(float* state) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row(r) >= value_dim) continue;
      float* to = state + static_cast<int64_t>(row(r)) * kStateKeyDim;
#pragma unroll
      for (int i = 0; i < kElements / 4; ++i) {
        *reinterpret_cast<float4*>(to + FirstElement(i)) =
            make_float4(value[r][4 * i], value[r][4 * i + 1],
                        value[r][4 * i + 2], value[r][4 * i + 3]);
      }
    }
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_GDN_STATE_ROWS_CUH_
