// The elements of a MatrixGenerator, for the host and the device. Only exact
// operations and single roundings, so that both compute the same floats.
#ifndef BOLE_KERNELS_GENERATED_ELEMENT_H_
#define BOLE_KERNELS_GENERATED_ELEMENT_H_

#include <cstdint>

#include "common/philox.h"
#include "kernels/generate.h"
#include "kernels/markov_text.h"

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

// The drafter's ranking is kept in the embedding at half its size, so that the
// target's norm hardly depends on it; selecting it doubles it again.
inline constexpr float kDraftRankGain = 2;
inline constexpr float kDraftRankScale =
    1.0f / kDraftRankGain / kTextUnit / kTextUnit;

BOLE_HOST_DEVICE constexpr PhiloxCounter ElementBits(const MatrixGenerator& g,
                                                     uint32_t row,
                                                     uint32_t block) {
  return Philox(
      {{block, row, g.stream, kMatrixElements}},
      {{static_cast<uint32_t>(g.seed), static_cast<uint32_t>(g.seed >> 32)}});
}

BOLE_HOST_DEVICE constexpr const RowBlock& BlockOf(const MatrixGenerator& g,
                                                   int row) {
  int block = 0;
  while (block + 1 < g.num_blocks && row >= g.blocks[block].end) ++block;
  return g.blocks[block];
}

// A half's columns 4 i .. 4 i + 3: what a group's signs are multiplied with.
BOLE_HOST_DEVICE constexpr ElementBlock MarkovMagnitudes(
    const MatrixGenerator& g, uint32_t token, uint32_t i, bool is_second) {
  const MarkovCode& code = g.code;
  const bool is_head = g.pattern == MatrixPattern::kHead;
  const uint32_t column = i * kElementBlock;
  if (column < static_cast<uint32_t>(code.code_columns)) {
    const float one = is_head ? code.head_code : 1.0f;
    return {{one, one, one, one}};
  }
  const uint32_t k = (column - code.code_columns) % kSuccessors;
  const uint32_t place =
      (is_head ? token : LikeliestSuccessor(code, token)) % kSuccessors;
  DraftRanks ranks = {};
  if (is_second) ranks = DraftRanksOf(code, token, k / kElementBlock);
  const int32_t* known = (is_head ? code.rank : RankOf(code, token)) + k;
  ElementBlock out = {};
  for (uint32_t j = 0; j < kElementBlock; ++j) {
    float value = code.head_rank;
    if (!is_head) {
      value = is_second ? static_cast<float>(ranks.value[j]) * kDraftRankScale
                        : static_cast<float>(known[j]) * (1.0f / kTextUnit);
    }
    out.value[j] = value * static_cast<float>(Walsh(k + j, place));
  }
  return out;
}

// Columns 4 i .. 4 i + 3 of an embedding's or a head's row.
BOLE_HOST_DEVICE constexpr ElementBlock MarkovBlock(const MatrixGenerator& g,
                                                    uint32_t token,
                                                    uint32_t block) {
  const MarkovCode& code = g.code;
  const bool is_head = g.pattern == MatrixPattern::kHead;
  const uint32_t blocks_of_half = g.columns / 2 / kElementBlock;
  const bool is_second = block >= blocks_of_half;
  if (is_head && is_second) return {};
  const uint32_t i = is_second ? block - blocks_of_half : block;
  // All rows share the signs of the rank's columns: those of no group.
  uint32_t group = static_cast<uint32_t>(g.rows) / kSuccessors;
  if (i * kElementBlock < static_cast<uint32_t>(code.code_columns)) {
    group = is_head     ? token / kSuccessors
            : is_second ? DraftGroup(code, token)
                        : LikeliestSuccessor(code, token) / kSuccessors;
  }
  const PhiloxCounter bits = ElementBits(g, group, i);
  ElementBlock out = MarkovMagnitudes(g, token, i, is_second);
  for (int j = 0; j < kElementBlock; ++j) {
    if (bits.word[j] >> 31 != 0) out.value[j] = -out.value[j];
  }
  return out;
}

// Columns 4 i .. 4 i + 3 of a row; those at or beyond g.columns mean nothing.
BOLE_HOST_DEVICE constexpr ElementBlock Elements(const MatrixGenerator& g,
                                                 int row, uint32_t block) {
  if (g.pattern == MatrixPattern::kHead ||
      g.pattern == MatrixPattern::kEmbedding) {
    return MarkovBlock(g, row, block);
  }
  const PhiloxCounter bits = ElementBits(g, row, block);
  const RowBlock& rows = BlockOf(g, row);
  const float scale = kBellScale * rows.deviation;
  ElementBlock out = {};
  for (int i = 0; i < kElementBlock; ++i) {
    out.value[i] = static_cast<float>(Bell(bits.word[i])) * scale;
    const int column = static_cast<int>(block) * kElementBlock + i;
    const bool is_selected =
        g.pattern == MatrixPattern::kSelection && column == row + rows.shift;
    if (is_selected) out.value[i] = rows.gain;
  }
  return out;
}

// The size of the generator's part, and where its rows and blocks of columns
// are in the whole matrix.
BOLE_HOST_DEVICE constexpr int PartRows(const MatrixGenerator& g) {
  if (g.part.num_ranges == 0) return g.rows;
  int rows = 0;
  for (int i = 0; i < g.part.num_ranges; ++i) rows += g.part.ranges[i].count;
  return rows;
}
BOLE_HOST_DEVICE constexpr int PartColumns(const MatrixGenerator& g) {
  return g.part.num_ranges == 0 ? g.columns : g.part.columns;
}
BOLE_HOST_DEVICE constexpr int WholeRow(const MatrixGenerator& g, int row) {
  for (int i = 0; i < g.part.num_ranges; ++i) {
    const RowRange& range = g.part.ranges[i];
    if (row < range.count) return range.first + row;
    row -= range.count;
  }
  return row;
}
BOLE_HOST_DEVICE constexpr int WholeBlock(const MatrixGenerator& g, int block) {
  return g.part.first_column / kElementBlock + block;
}

}  // namespace bole

#undef BOLE_HOST_DEVICE

#endif  // BOLE_KERNELS_GENERATED_ELEMENT_H_
