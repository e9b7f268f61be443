// The noise of sampling: for every (seed, position, token) one fixed number.
//
// The largest of logit + Gumbel noise over all tokens is a draw from the
// softmax of the logits. As the noise depends on nothing else, neither on the
// batch nor on how a position was reached, nor does the draw.
#ifndef BOLE_COMMON_GUMBEL_H_
#define BOLE_COMMON_GUMBEL_H_

#include <cmath>
#include <cstdint>

#include "common/philox.h"

#if defined(__CUDACC__)
#define BOLE_HOST_DEVICE __host__ __device__
#else
#define BOLE_HOST_DEVICE
#endif

namespace bole {

// The purposes of random bits. Two purposes never share any.
inline constexpr uint32_t kTokenNoise = 0;

// Consecutive tokens share one evaluation of Philox.
inline constexpr int kNoiseBlock = 4;

// The bits of tokens block * 4 .. block * 4 + 3 as candidates for `position`,
// the absolute position of the token drawn.
// Key: seed, low word first. Counter: block, position (low, high), purpose.
BOLE_HOST_DEVICE constexpr PhiloxCounter NoiseBits(uint64_t seed,
                                                   uint64_t position,
                                                   uint32_t block) {
  return Philox(
      {{block, static_cast<uint32_t>(position),
        static_cast<uint32_t>(position >> 32), kTokenNoise}},
      {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}});
}

// Uniform in (0, 1), from the middle of one of 2^32 equal intervals. Close to 0
// all 32 bits count; values that would round to 1 give the float below it.
BOLE_HOST_DEVICE constexpr float UniformFromBits(uint32_t bits) {
  const float uniform = (static_cast<float>(bits) + 0.5f) * 0x1p-32f;
  return uniform < 1.0f ? uniform : 1.0f - 0x1p-24f;
}

// Standard Gumbel noise in (-3, 23): -log(-log(u)) of a uniform u. Large noise,
// which decides, comes from u near 1, where floats are coarse and rounding
// would favour some tokens. So u is taken as 1 - v with v the uniform above.
BOLE_HOST_DEVICE inline float GumbelFromBits(uint32_t bits) {
  return -logf(-log1pf(-UniformFromBits(bits)));
}

// The noise of one token. COST: one Philox and two logarithms; for many tokens
// in a row take NoiseBits() once for every kNoiseBlock of them.
BOLE_HOST_DEVICE inline float GumbelNoise(uint64_t seed, uint64_t position,
                                          int32_t token) {
  const PhiloxCounter bits =
      NoiseBits(seed, position, static_cast<uint32_t>(token) / kNoiseBlock);
  return GumbelFromBits(bits.word[token % kNoiseBlock]);
}

}  // namespace bole

#undef BOLE_HOST_DEVICE

#endif  // BOLE_COMMON_GUMBEL_H_
