// Writes the results of a product with integers (int7_product.cu).
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_INT7_WRITER_CUH_
#define BOLE_KERNELS_CUDA_PRODUCTS_INT7_WRITER_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/products/int7_product.h"

namespace bole::cuda {

// What four neighbouring results are made of, besides their sums.
struct FourRows {
  float4 scale;
  float4 before;  // The old values of out, if the product is added to them.
};

struct Int7Writer {
  const Int7Task& t;
  int limit;  // Rows of x in use.

  __device__ float ScaleOf(int row) const {
    return row < t.weight.rows ? t.weight.scale[row] : 0;
  }
  __device__ bool IsThere(int n, int row) const {
    return n < limit && row < t.weight.rows;
  }
  __device__ int64_t At(int n, int row) const {
    return static_cast<int64_t>(n) * t.weight.rows + row;
  }
  // Whether four results can be read or written in one access.
  __device__ bool HasFours() const { return t.weight.rows % 4 == 0; }

  __device__ float Before(int n, int row) const {
    if (!t.accumulate || !IsThere(n, row)) return 0;
    const int64_t at = At(n, row);
    return t.float_out ? static_cast<const float*>(t.out)[at]
                       : ToFloat(static_cast<const BFloat16*>(t.out)[at]);
  }
  __device__ void Store(int n, int row, float value) const {
    if (!IsThere(n, row)) return;
    if (t.float_out) {
      static_cast<float*>(t.out)[At(n, row)] = value;
    } else {
      static_cast<BFloat16*>(t.out)[At(n, row)] = FromFloat<BFloat16>(value);
    }
  }
  __device__ void Write(int n, int row, float sum) const {
    Store(n, row, Before(n, row) + sum * ScaleOf(row));
  }

  // Reads what rows row .. row + 3 are scaled by and added to. `row` is a
  // multiple of 4.
  __device__ FourRows Read(int n, int row) const {
    FourRows four = {};
    if (!IsThere(n, row)) return four;
    if (!HasFours()) {
      four.scale = make_float4(ScaleOf(row), ScaleOf(row + 1), ScaleOf(row + 2),
                               ScaleOf(row + 3));
      four.before = make_float4(Before(n, row), Before(n, row + 1),
                                Before(n, row + 2), Before(n, row + 3));
      return four;
    }
    four.scale = *reinterpret_cast<const float4*>(t.weight.scale + row);
    if (!t.accumulate) return four;
    if (t.float_out) {
      four.before = *reinterpret_cast<const float4*>(
          static_cast<const float*>(t.out) + At(n, row));
      return four;
    }
    const uint2 pairs = *reinterpret_cast<const uint2*>(
        static_cast<const BFloat16*>(t.out) + At(n, row));
    const float2 low =
        __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pairs.x));
    const float2 high =
        __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pairs.y));
    four.before = make_float4(low.x, low.y, high.x, high.y);
    return four;
  }
  __device__ void WriteFour(int n, int row, float4 sum,
                            const FourRows& four) const {
    const float4 value = make_float4(four.before.x + sum.x * four.scale.x,
                                     four.before.y + sum.y * four.scale.y,
                                     four.before.z + sum.z * four.scale.z,
                                     four.before.w + sum.w * four.scale.w);
    if (!HasFours()) {
      Store(n, row, value.x);
      Store(n, row + 1, value.y);
      Store(n, row + 2, value.z);
      Store(n, row + 3, value.w);
    } else if (!IsThere(n, row)) {
      return;
    } else if (t.float_out) {
      *reinterpret_cast<float4*>(static_cast<float*>(t.out) + At(n, row)) =
          value;
    } else {
      const __nv_bfloat162 low = __floats2bfloat162_rn(value.x, value.y);
      const __nv_bfloat162 high = __floats2bfloat162_rn(value.z, value.w);
      *reinterpret_cast<uint2*>(static_cast<BFloat16*>(t.out) + At(n, row)) =
          make_uint2(reinterpret_cast<const uint32_t&>(low),
                     reinterpret_cast<const uint32_t&>(high));
    }
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_INT7_WRITER_CUH_
