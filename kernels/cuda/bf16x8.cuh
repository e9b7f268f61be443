// Eight bfloat16 elements, 16 bytes, as one load or store.
#ifndef BOLE_KERNELS_CUDA_BF16X8_CUH_
#define BOLE_KERNELS_CUDA_BF16X8_CUH_

#include <cuda_bf16.h>

#include <cstdint>

namespace bole::cuda {

inline constexpr int kVector = 8;  // Elements of a vector.

// Two elements in a word, the first in its lower half.
__device__ inline uint32_t PackTwo(float first, float second) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(first, second);
  uint32_t bits;
  memcpy(&bits, &two, sizeof(bits));
  return bits;
}
__device__ inline float FirstOfTwo(uint32_t two) {
  return __uint_as_float(two << 16);
}
__device__ inline float SecondOfTwo(uint32_t two) {
  return __uint_as_float(two & 0xffff0000u);
}

// `from` is aligned to 16 bytes.
__device__ inline uint4 LoadVector(const __nv_bfloat16* from) {
  return *reinterpret_cast<const uint4*>(from);
}
__device__ inline void StoreVector(__nv_bfloat16* to, const uint4& vector) {
  *reinterpret_cast<uint4*>(to) = vector;
}

__device__ inline void Unpack(const uint4& vector, float (&x)[kVector]) {
  const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = FirstOfTwo(words[i]);
    x[2 * i + 1] = SecondOfTwo(words[i]);
  }
}
__device__ inline uint4 Pack(const float (&x)[kVector]) {
  return make_uint4(PackTwo(x[0], x[1]), PackTwo(x[2], x[3]),
                    PackTwo(x[4], x[5]), PackTwo(x[6], x[7]));
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_BF16X8_CUH_
