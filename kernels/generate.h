// Matrices that are computed instead of loaded: the weights of synthetic
// checkpoints. Every element is a function of its place and a seed, the same on
// every backend (but for the rounding to what the backend stores).
#ifndef BOLE_KERNELS_GENERATE_H_
#define BOLE_KERNELS_GENERATE_H_

#include <cstdint>

namespace bole {

enum class MatrixPattern {
  kRandom,       // Bell-shaped around 0; deviation by rows.
  kPassThrough,  // The same with 1 on the diagonal: out = x + noise. The last
                 // columns have a deviation of their own.
  kEmbedding,    // Of a Markov chain: rows by token.
  kHead,         // Of the same chain.
};

// Rows before `end` (and not before the end of the block above) have elements
// of standard deviation `deviation`.
struct RowBlock {
  int end;
  float deviation;
};
inline constexpr int kMaxRowBlocks = 4;

// Successors of a token, a power of 2.
inline constexpr int kSuccessors = 8;

// A Markov chain over the tokens 0 .. A-1, A a multiple of kSuccessors. Token t
// is followed by s_m(t) = s_0(t) xor m, m = 0 .. 7, with
// s_0(t) = (multiplier t + increment) mod A: its successors are one group of
// eight consecutive ids. Other tokens of the vocabulary lead into the chain and
// never follow.
//
// The first `code_columns` columns of an embedding are signs, a hash of the
// group that follows; a head row has the signs of its own group, so their
// product is code_columns for the successors and near 0 for others. The other
// columns carry, as a Walsh transform over the place in the group, which of the
// eight is how likely: `rank` are its coefficients. Head rows have the Walsh
// functions of their own place.
struct MarkovCode {
  uint32_t num_tokens;  // A
  uint32_t multiplier;  // Coprime to A.
  uint32_t increment;
  int code_columns;  // H minus a multiple of kSuccessors.
  float rank[kSuccessors];
  float head_code;  // Magnitude of a head's elements: code columns,
  float head_rank;  // and the others.
};

struct MatrixGenerator {
  MatrixPattern pattern;
  int rows;
  int columns;
  uint64_t seed;
  uint32_t stream;  // Matrices of one seed and other streams are independent;
                    // an embedding and its head share one.
  int num_blocks = 0;                   // kRandom, kPassThrough: at least 1,
  RowBlock blocks[kMaxRowBlocks] = {};  // and the last one's end is `rows`.
  int rest_columns = 0;      // kPassThrough: so many columns at the end
  float rest_deviation = 0;  // have elements of this deviation.
  MarkovCode code = {};      // kEmbedding, kHead.
};

}  // namespace bole

#endif  // BOLE_KERNELS_GENERATE_H_
