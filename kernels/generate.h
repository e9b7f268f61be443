// Matrices that are computed instead of loaded: the weights of synthetic
// checkpoints. Every element is a function of its place and a seed, the same on
// every backend (but for the rounding to what the backend stores).
#ifndef BOLE_KERNELS_GENERATE_H_
#define BOLE_KERNELS_GENERATE_H_

#include <cstdint>

namespace bole {

enum class MatrixPattern {
  kRandom,     // Bell-shaped around 0; deviation by rows.
  kSelection,  // The same, but for one element of each row: out = gain x[row +
               // shift] + noise.
  kEmbedding,  // Embedding of a Markov chain: rows by token.
  kHead,       // Head of the same chain.
};

// Rows before `end` (and not before the end of the block above) have elements
// of standard deviation `deviation`.
struct RowBlock {
  int end;
  float deviation;
  int shift;  // kSelection: the element in column row + shift is `gain`.
  float gain;
};
inline constexpr int kMaxRowBlocks = 4;

// Successors of a token, a power of 2.
inline constexpr int kSuccessors = 8;

// Stretches of the text are of so many levels of difficulty.
inline constexpr int kTextLevels = 8;

// What a drafter makes of the tokens of a level. A share of 1 is kTextUnit.
inline constexpr int kTextUnit = 4096;
struct TextLevel {
  uint32_t lost;  // Tokens in 2^32 after which it expects another group.
  int32_t keep;   // Share that it knows of the log probabilities.
  int32_t noise;  // In kTextUnit^2 for each unit of a bell-shaped number that
                  // deviates by 1 / kBellScale (kernels/markov_text.h).
};

// A Markov chain over the tokens 0 .. A-1, and what its drafter believes of it.
// kernels/markov_text.h has its functions.
//
// Groups of kSuccessors consecutive tokens make a text: token t is followed by
// s_m(t) = s_0(t) xor m, m = 0 .. 7, which are one group. `stretch` groups in a
// row are of one difficulty, and a passage of stretches is of similar ones. The
// chain goes through a stretch group by group, and from its end to one nearby,
// which depends on the token's place in the group, so that texts part that
// chose differently. Other tokens of the vocabulary lead into the chain and
// never follow.
//
// The columns of an embedding are two halves of one form, the first of the
// target's text, and the second of what the drafter believes. The first
// `code_columns` of a half are signs, a hash of the group that follows; a head
// row has the signs of its own group, so their product is code_columns for the
// successors and near 0 for others. The half's other columns carry, as a Walsh
// transform over the place in the group, which of the eight is how likely:
// `rank` are its coefficients. Head rows have the Walsh functions of their own
// place in the first half, and nothing in the second.
struct MarkovCode {
  uint64_t seed;
  uint32_t num_tokens;     // A, a multiple of stretch * kSuccessors.
  uint32_t stretch;        // Groups of a stretch.
  uint32_t passages;       // At most as many as stretches.
  int32_t passage_weight;  // Weight of a passage in its stretches' difficulty,
  int32_t stretch_weight;  // and of a stretch itself (kernels/markov_text.h).
  uint32_t branches;       // Tokens in 2^32 with two successors that
                           // are equally likely.
  TextLevel levels[kTextLevels];
  int code_columns;                  // Code columns of a half; a multiple of 4.
  int32_t rank[kSuccessors];         // In kTextUnit;
  int32_t branch_rank[kSuccessors];  // at a branch.
  float head_code;  // Magnitude of a head's elements: code columns,
  float head_rank;  // and the others.
};

// Consecutive rows of a matrix.
struct RowRange {
  int first;
  int count;
};
inline constexpr int kMaxRowRanges = 6;

// What is made of a matrix: ranges of its rows, one below the other, and of
// each row the same columns. An element depends on its place in the whole
// matrix alone, so that a part is a slice of the whole, bit for bit.
struct MatrixPart {
  int num_ranges = 0;  // 0: all rows and all columns.
  RowRange ranges[kMaxRowRanges] = {};
  int first_column = 0;  // A multiple of 4.
  int columns = 0;
};

// The matrix as a whole, and which part of it is made.
struct MatrixGenerator {
  MatrixPattern pattern;
  int rows;
  int columns;  // kEmbedding, kHead: a multiple of 8.
  uint64_t seed;
  uint32_t stream;  // Matrices of one seed and other streams are independent;
                    // an embedding and its head share one.
  int num_blocks = 0;                   // kRandom, kSelection: at least 1,
  RowBlock blocks[kMaxRowBlocks] = {};  // and the last one's end is `rows`.
  MarkovCode code = {};                 // kEmbedding, kHead.
  MatrixPart part = {};
};

}  // namespace bole

#endif  // BOLE_KERNELS_GENERATE_H_
