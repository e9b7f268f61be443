// The elements of a MatrixGenerator, for the host and the device. Only exact
// operations and single roundings, so that both compute the same floats.
#ifndef BOLE_KERNELS_GENERATED_ELEMENT_H_
#define BOLE_KERNELS_GENERATED_ELEMENT_H_

#include <cstdint>

#include "common/philox.h"
#include "kernels/generate.h"

#if defined(__CUDACC__)
#define BOLE_HOST_DEVICE __host__ __device__
#else
#define BOLE_HOST_DEVICE
#endif

namespace bole {

// Last word of the counter; that of sampling's noise is 0.
inline constexpr uint32_t kMatrixElements = 1;

// Elements that share one evaluation of Philox: columns 4 i .. 4 i + 3.
inline constexpr int kElementBlock = 4;

struct ElementBlock {
  float value[kElementBlock];
};

BOLE_HOST_DEVICE constexpr PhiloxCounter ElementBits(const MatrixGenerator& g,
                                                     uint32_t row,
                                                     uint32_t block) {
  return Philox(
      {{block, row, g.stream, kMatrixElements}},
      {{static_cast<uint32_t>(g.seed), static_cast<uint32_t>(g.seed >> 32)}});
}

// The sum of a word's bytes: close to a normal distribution of mean 0 and
// standard deviation 1 / kBellScale.
inline constexpr float kBellScale = 1.0f / 147.8017f;
BOLE_HOST_DEVICE constexpr int Bell(uint32_t word) {
  return static_cast<int>((word & 255) + (word >> 8 & 255) +
                          (word >> 16 & 255) + (word >> 24)) -
         510;
}

BOLE_HOST_DEVICE constexpr float DeviationOf(const MatrixGenerator& g,
                                             int row) {
  int block = 0;
  while (block + 1 < g.num_blocks && row >= g.blocks[block].end) ++block;
  return g.blocks[block].deviation;
}

// +1 or -1: the Walsh function k at place r.
BOLE_HOST_DEVICE constexpr int Walsh(uint32_t k, uint32_t r) {
  const uint32_t both = k & r & (kSuccessors - 1);
  return ((both ^ both >> 1 ^ both >> 2) & 1) != 0 ? -1 : 1;
}

BOLE_HOST_DEVICE constexpr uint32_t LikeliestSuccessor(const MarkovCode& code,
                                                       uint32_t token) {
  return static_cast<uint32_t>(
      (uint64_t{code.multiplier} * token + code.increment) % code.num_tokens);
}

// Columns 4 i .. 4 i + 3 of an embedding's or a head's row; `token` is the
// likeliest successor of an embedding's token, and a head's own.
BOLE_HOST_DEVICE constexpr ElementBlock MarkovBlock(const MatrixGenerator& g,
                                                    uint32_t token,
                                                    uint32_t block) {
  const MarkovCode& code = g.code;
  const bool is_head = g.pattern == MatrixPattern::kHead;
  // All rows share the signs of the rank's columns: those of no group.
  const uint32_t no_group = static_cast<uint32_t>(g.rows) / kSuccessors;
  ElementBlock out = {};
  PhiloxCounter bits = {};
  uint32_t bits_of = UINT32_MAX;
  for (int i = 0; i < kElementBlock; ++i) {
    const int column = static_cast<int>(block) * kElementBlock + i;
    const bool is_code = column < code.code_columns;
    const uint32_t group = is_code ? token / kSuccessors : no_group;
    if (group != bits_of) bits = ElementBits(g, bits_of = group, block);
    const uint32_t k =
        static_cast<uint32_t>(column - code.code_columns) % kSuccessors;
    float magnitude = is_head ? code.head_code : 1.0f;
    if (!is_code) {
      magnitude = (is_head ? code.head_rank : code.rank[k]) *
                  static_cast<float>(Walsh(k, token));
    }
    out.value[i] = bits.word[i] >> 31 != 0 ? -magnitude : magnitude;
  }
  return out;
}

// Columns 4 i .. 4 i + 3 of a row; those at or beyond g.columns mean nothing.
BOLE_HOST_DEVICE constexpr ElementBlock Elements(const MatrixGenerator& g,
                                                 int row, uint32_t block) {
  if (g.pattern == MatrixPattern::kHead) return MarkovBlock(g, row, block);
  if (g.pattern == MatrixPattern::kEmbedding) {
    return MarkovBlock(g, LikeliestSuccessor(g.code, row), block);
  }
  const PhiloxCounter bits = ElementBits(g, row, block);
  const float scale = kBellScale * DeviationOf(g, row);
  ElementBlock out = {};
  for (int i = 0; i < kElementBlock; ++i) {
    out.value[i] = static_cast<float>(Bell(bits.word[i])) * scale;
    if (g.pattern == MatrixPattern::kRandom) continue;
    const int column = static_cast<int>(block) * kElementBlock + i;
    if (column == row) out.value[i] = 1;
    if (column >= g.columns - g.rest_columns && column != row) {
      out.value[i] = static_cast<float>(Bell(bits.word[i])) *
                     (kBellScale * g.rest_deviation);
    }
  }
  return out;
}

}  // namespace bole

#undef BOLE_HOST_DEVICE

#endif  // BOLE_KERNELS_GENERATED_ELEMENT_H_
