#ifndef BOLE_KERNELS_SAMPLING_H_
#define BOLE_KERNELS_SAMPLING_H_

#include <cstdint>
#include <span>

#include "kernels/row_batch.h"

namespace bole {

// Coupled sampling and acceptance.
//
// The token at an absolute position is drawn from the filtered target
// distribution with Gumbel noise keyed by (seed, position, token id). A node is
// accepted exactly if it carries the token so drawn at its parent, so the text
// does not depend on what was drafted, nor on whether anything was.

inline constexpr int kMaxTopLogprobs = 20;

// Stands for the token of a row that has no token to draw (SampleParams).
inline constexpr int32_t kNoToken = -1;

// Sampling reads logits in groups of this many tokens. A group is not divided
// among ranks.
inline constexpr int kHeadGroupTokens = 512;

// One request's part of SampleParams. Plain data, copied to the device.
struct SamplingControl {
  uint64_t seed;
  float temperature;         // 0: greedy, ties to the lower id.
  int32_t top_k;             // 0: all.
  float top_p;               // 1: all.
  float min_p;               // 0: all.
  float presence_penalty;    // 0: none.
  float frequency_penalty;   // 0: none.
  float repetition_penalty;  // 1: none.
  int32_t prompt_length;     // Tokens at later positions are output.
  int32_t max_tokens;        // Emit at most this many this round; >= 1.
  int32_t min_tokens;        // Draw no stop token among the first min_tokens of
                             // the output; 0: stop tokens may always be drawn.
  int32_t top_logprobs;      // 0 .. kMaxTopLogprobs; alternatives to report.
};

// The counts of a slot's committed tokens, which penalties depend on.
struct TokenCounts {
  int32_t* count;  // [slots, V] how often the token was output, plus
                   // kPromptToken if the prompt has it.
  int num_slots;
};
inline constexpr int32_t kPromptToken = 1 << 30;

// Walks every request's tree from its root: draws the token of the node, emits
// it, and goes on to the child that carries it. Stops where no child does,
// after a stop token, and after control.max_tokens tokens. A request whose rows
// have several parentless nodes starts at the first.
//
// Filters apply in this order: bias; the ban of stop tokens before min_tokens,
// which sets their logits to -inf; penalties (each node counts its own
// ancestors); temperature; top-k (ties at the k-th value stay); top-p over what
// is left (the smallest set with a probability of at least p, ties to the lower
// id); min-p. Log probabilities are those of the model's own distribution,
// before all of these.
//
// A row has no token to draw if one of its logits below num_valid_tokens is
// NaN, or if bias, ban and penalties leave no token with a logit above -inf;
// +inf counts as the largest float. A walk that visits such a row ends there
// with kNoToken, and the log probabilities of that entry mean nothing. Rows
// that no walk visits may hold anything.
//
// With several ranks, each has some columns of the logits, and all of them draw
// the same tokens: those that they would draw if each had all columns.
struct SampleParams {
  RowBatch batch;
  int vocabulary;        // V
  int num_valid_tokens;  // Ids from this one on are never drawn.
  const int32_t* token;  // [N] the rows' own tokens.
  // The rows from first_logits on are [N, V], or the rank's columns of them.
  // With several ranks they must lie in memory of Device::AllocateShared().
  const float* logits;
  int64_t first_logits = 0;
  // The number of columns of each rank; their sum is V. On the host; not read
  // if there is only one rank. GPUs refuse a border between two ranks within a
  // group of kHeadGroupTokens that has valid tokens on both sides.
  std::span<const int> rank_columns = {};
  const SamplingControl* control;  // [B]
  TokenCounts counts;              // Counts of the committed tokens.
  const int32_t* first_bias;       // [B + 1]
  const int32_t* bias_token;       // [first_bias[B]]
  const float* bias;               // [first_bias[B]]
  const int32_t* first_stop;       // [B + 1]
  const int32_t* stop_token;       // [first_stop[B]]

  // Out. Entry path_first[b] + j belongs to the j-th visited node of request b.
  int32_t* path_first;  // [B + 1]
  int32_t* path_row;    // [N] visited rows.
  int32_t* emitted;     // [N] token drawn at that row, or kNoToken.
  float* logprob;       // [N] of the drawn token.
  int32_t* top_token;   // [N, kMaxTopLogprobs]
  float* top_logprob;   // [N, kMaxTopLogprobs]
  int32_t* accepted;    // [B] emitted tokens that the tree had proposed.
  int32_t* next_token;  // [B] the last token emitted, or kNoToken.
};

// Adds the path's tokens to the counts of their slots: as output from position
// prompt_length on, and as prompt before it. A request with committed == 0
// starts from empty counts. Requests without penalties are counted too, because
// a later request that continues from the slot may have penalties.
struct CountTokensParams {
  RowBatch batch;
  RowPath path;
  int vocabulary;
  const int32_t* token;            // [N]
  const SamplingControl* control;  // [B]
  TokenCounts counts;
};

// Turns all tokens that are counted in a slot into prompt tokens, for a request
// that continues where another one ended.
struct OutputToPromptParams {
  int slot;
  int vocabulary;
  TokenCounts counts;
};

}  // namespace bole

#endif  // BOLE_KERNELS_SAMPLING_H_
