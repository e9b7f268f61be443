// The text of a MarkovCode and its drafter's beliefs, for the host and the
// device. All are functions of a token and a seed, in integers, so that both
// compute the same.
#ifndef BOLE_KERNELS_MARKOV_TEXT_H_
#define BOLE_KERNELS_MARKOV_TEXT_H_

#include <cstdint>

#include "common/philox.h"
#include "kernels/generate.h"

#if defined(__CUDACC__)
#define BOLE_HOST_DEVICE __host__ __device__
#else
#define BOLE_HOST_DEVICE
#endif

namespace bole {

// Last word of the counter of these numbers; those of sampling's noise and of
// matrix elements are 0 and 1.
inline constexpr uint32_t kTextDraws = 2;

// What numbers are drawn for: the first word of the counter. Noise takes one
// draw for every four coefficients.
enum class TextDraw : uint32_t { kNoise = 0, kFate = 2, kPassage, kStretch };

BOLE_HOST_DEVICE constexpr PhiloxCounter DrawText(const MarkovCode& code,
                                                  uint32_t draw, uint32_t of) {
  return Philox({{draw, of, 0, kTextDraws}},
                {{static_cast<uint32_t>(code.seed),
                  static_cast<uint32_t>(code.seed >> 32)}});
}
BOLE_HOST_DEVICE constexpr PhiloxCounter DrawText(const MarkovCode& code,
                                                  TextDraw draw, uint32_t of) {
  return DrawText(code, static_cast<uint32_t>(draw), of);
}

// The sum of a word's bytes: close to a normal distribution of mean 0 and
// standard deviation 1 / kBellScale.
inline constexpr float kBellScale = 1.0f / 147.8017f;
BOLE_HOST_DEVICE constexpr int Bell(uint32_t word) {
  return static_cast<int>((word & 255) + (word >> 8 & 255) +
                          (word >> 16 & 255) + (word >> 24)) -
         510;
}

// +1 or -1: the Walsh function k at place r.
BOLE_HOST_DEVICE constexpr int Walsh(uint32_t k, uint32_t r) {
  const uint32_t both = k & r & (kSuccessors - 1);
  return ((both ^ both >> 1 ^ both >> 2) & 1) != 0 ? -1 : 1;
}

BOLE_HOST_DEVICE constexpr uint32_t StretchOf(const MarkovCode& code,
                                              uint32_t token) {
  return token % code.num_tokens / kSuccessors / code.stretch;
}

BOLE_HOST_DEVICE constexpr uint32_t NumStretches(const MarkovCode& code) {
  return code.num_tokens / kSuccessors / code.stretch;
}

// s_0. From the end of a stretch it is three back to five on, by the place in
// the group; the places follow each other in a cycle of eight, in which the
// chain moves on by five.
BOLE_HOST_DEVICE constexpr uint32_t LikeliestSuccessor(const MarkovCode& code,
                                                       uint32_t token) {
  const uint32_t at = token % code.num_tokens;
  const uint32_t group = at / kSuccessors;
  if ((group + 1) % code.stretch != 0) return at + kSuccessors;
  const uint32_t place = at % kSuccessors;
  const uint32_t stretches = NumStretches(code);
  const uint32_t next =
      (group / code.stretch + 4 * stretches + place - 3 + place / 7) %
      stretches;
  return next * code.stretch * kSuccessors + (5 * place + 3) % kSuccessors;
}

// 0 .. kTextLevels - 1. Weights for which the sum below deviates by 2^17 put
// the middle of level i at (i - 3.5) / 2 deviations.
BOLE_HOST_DEVICE constexpr int LevelOf(const MarkovCode& code, uint32_t token) {
  const uint32_t stretch = StretchOf(code, token);
  const uint32_t passage = static_cast<uint32_t>(
      uint64_t{stretch} * code.passages / NumStretches(code));
  const int difficulty =
      code.passage_weight *
          Bell(DrawText(code, TextDraw::kPassage, passage).word[0]) +
      code.stretch_weight *
          Bell(DrawText(code, TextDraw::kStretch, stretch).word[0]);
  const int level = (difficulty >> 16) + kTextLevels / 2;
  return level < 0 ? 0 : level >= kTextLevels ? kTextLevels - 1 : level;
}

// Whether the token has two likeliest successors, s_0 and s_1.
BOLE_HOST_DEVICE constexpr bool IsBranch(const MarkovCode& code,
                                         uint32_t token) {
  return DrawText(code, TextDraw::kFate, token).word[2] < code.branches;
}

// The target's coefficients.
BOLE_HOST_DEVICE constexpr const int32_t* RankOf(const MarkovCode& code,
                                                 uint32_t token) {
  return IsBranch(code, token) ? code.branch_rank : code.rank;
}

// The group that the drafter expects after the token.
BOLE_HOST_DEVICE constexpr uint32_t DraftGroup(const MarkovCode& code,
                                               uint32_t token) {
  const PhiloxCounter fate = DrawText(code, TextDraw::kFate, token);
  if (fate.word[0] < code.levels[LevelOf(code, token)].lost) {
    return fate.word[1] % (code.num_tokens / kSuccessors);
  }
  return LikeliestSuccessor(code, token) / kSuccessors;
}

// Coefficients 4 i .. 4 i + 3 of the drafter's ranking, in kTextUnit^2.
struct DraftRanks {
  int32_t value[4];
};
BOLE_HOST_DEVICE constexpr DraftRanks DraftRanksOf(const MarkovCode& code,
                                                   uint32_t token, uint32_t i) {
  const TextLevel& level = code.levels[LevelOf(code, token)];
  const int32_t* rank = RankOf(code, token);
  const PhiloxCounter noise =
      DrawText(code, static_cast<uint32_t>(TextDraw::kNoise) + i, token);
  DraftRanks out = {};
  for (uint32_t j = 0; j < 4; ++j) {
    out.value[j] =
        level.keep * rank[4 * i + j] + level.noise * Bell(noise.word[j]);
  }
  return out;
}

}  // namespace bole

#undef BOLE_HOST_DEVICE

#endif  // BOLE_KERNELS_MARKOV_TEXT_H_
