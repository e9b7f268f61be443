// Maps logits and tokens to integers of the same order, so that the best token
// of a row is a maximum, which does not depend on the order of reduction.
#ifndef BOLE_KERNELS_CUDA_SAMPLING_TOKEN_ORDER_CUH_
#define BOLE_KERNELS_CUDA_SAMPLING_TOKEN_ORDER_CUH_

#include <cfloat>
#include <cstdint>

#include "cuda_runtime.h"

namespace bole::cuda {

__device__ inline float Impossible() { return __uint_as_float(0xff800000u); }

// NaN counts as impossible, +inf as the largest float.
__device__ inline float CleanLogit(float logit) {
  return fminf(fmaxf(logit, Impossible()), FLT_MAX);
}

// Keys have the order of the floats; both zeros have the same key. REQUIRES:
// not NaN.
__device__ inline uint32_t OrderedKey(float x) {
  const uint32_t bits = x == 0 ? 0 : __float_as_uint(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ inline float FloatOfKey(uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// A token and its value. The larger rank is the higher value, then the lower
// id; every rank is above kNoRank.
using Rank = uint64_t;
inline constexpr Rank kNoRank = 0;
// The rank of logits with NaN among them. It is above every rank of a token, so
// that it wins every maximum.
inline constexpr Rank kNotNumbers = ~Rank{0};

__device__ inline Rank RankOf(float value, int32_t token) {
  return static_cast<Rank>(OrderedKey(value)) << 32 |
         ~static_cast<uint32_t>(token);
}
__device__ inline float ValueOf(Rank rank) {
  return FloatOfKey(static_cast<uint32_t>(rank >> 32));
}
__device__ inline int32_t TokenOf(Rank rank) {
  return static_cast<int32_t>(~static_cast<uint32_t>(rank));
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SAMPLING_TOKEN_ORDER_CUH_
