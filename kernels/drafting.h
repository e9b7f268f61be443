#ifndef BOLE_KERNELS_DRAFTING_H_
#define BOLE_KERNELS_DRAFTING_H_

#include <cstdint>
#include <span>

#include "common/draft_shape.h"
#include "kernels/row_batch.h"
#include "kernels/sampling.h"
#include "kernels/tensor.h"

namespace bole {

// The bookkeeping of drafting, on the device. Slot p of the drafter pairs the
// target's hidden vector at position p with the token at position p + 1.

// Builds the rows of the extend pass as a RowBatch of chains: for each request
// its path, with tokens shifted left by one and next_token at the end.
struct ExtendRowsParams {
  int max_requests;           // B
  int max_rows;               // N
  RowPath path;               // Rows of the target's batch.
  const int32_t* token;       // [.] the target rows' tokens.
  const int32_t* next_token;  // [B] kNoToken counts as token 0.
  const int32_t* committed;   // [B] tokens before this path.
  // [1] How many requests, the first ones, are extended; the paths of the
  // others count as empty.
  const int32_t* num_extended;
  int32_t* next_committed;  // [B] out: committed + length of the path.
  // Out, the extend batch:
  int32_t* num_rows;    // [1]
  int32_t* request;     // [N]
  int32_t* node;        // [N] index in the path; also the depth.
  int32_t* parent;      // [N]
  int32_t* row_token;   // [N]
  int32_t* hidden_row;  // [N] the target row whose hidden vector it takes.
  int32_t* last_row;    // [B] the last extend row of each request.
};

// Keeps the target's hidden vectors of the last `most` tokens of each path, for
// a later pass of the drafter. A slot keeps them in a ring: the vector of
// position p is at index p % ring.
struct StoreHiddenParams {
  RowBatch batch;            // The target's; `committed` excludes the path.
  RowPath path;              // Rows of the batch.
  int max_path_rows;         // Bound on the rows of all paths together.
  int width;                 // H
  int ring;                  // R
  int most;                  // 1 .. R
  const Activation* hidden;  // [N, H] of the target, by row.
  Activation* kept;          // [slots, R, H]
};

// The candidates of every request, in the order they were found. C per request.
struct CandidateTrees {
  int32_t* token;   // [B, C]
  int32_t* parent;  // [B, C] candidate, or -1: child of the root.
  float* log_rho;   // [B, C] log of the product of draft probabilities from
                    // the root, in nats; never above the parent's.
};

// token, log_prob = the k most likely tokens of each row, best first, ties to
// the lower column; a plain softmax without temperature over the valid columns.
// NaN counts as -inf and +inf as the largest float, so that whatever the logits
// are, there are k valid columns, and log_prob is <= 0 and not NaN.
//
// With several ranks, each has some columns of the logits, and all of them get
// the most likely tokens of all columns.
struct TopKParams {
  RowCount rows;
  int vocabulary;        // V: columns of the logits of all ranks.
  int num_valid_tokens;  // Columns from this one on do not count.
  int top_k;             // k <= kMaxDraftTopK
  const float* logits;   // [N, V], or the rank's columns of them.
  // As in SampleParams.
  std::span<const int> rank_columns = {};
  const int32_t* token_of;  // [V] token ids of the columns; null: column v
                            // is token v.
  int32_t* token;           // [N, k]
  float* log_prob;          // [N, k]
};

// One level of growth (EAGLE-2): appends the level's candidates and chooses
// the frontier, the rows that the drafter runs next: the k best of the level's
// candidates by (log_rho descending, candidate ascending), in that order.
struct GrowTreesParams {
  int max_requests;   // B
  RowCount requests;  // Requests in use; the rest are skipped.
  DraftShape shape;
  int level;                  // 0 .. D - 1
  int mask_words;             // W of the frontier's ancestor masks.
  const int32_t* top_token;   // level 0: [B, k]; else [B, k, k] by lane.
  const float* top_log_prob;  // the same
  CandidateTrees trees;
  // The frontier, k lanes per request, in the order of their ranks. In: that of
  // level - 1 (level >= 1). Out: that of this level (except the last level).
  // Lane i of request b is row b * k + i of the drafter's next batch, and its
  // node number is level * k + i.
  int32_t* frontier;    // [B, k] candidate.
  int32_t* row_token;   // [B * k] out.
  int32_t* row_parent;  // [B * k] out: node number, or -1 at level 0.
  int32_t* hidden_row;  // [B * k] out: row of the batch just run whose
                        // hidden vector the lane takes.
  uint32_t* ancestors;  // [B * k, W] in (level >= 1) and out.
};

// Updates each request by its accepted path, for a next round that starts
// without the host: committed grows and control.max_tokens shrinks by the
// length of the path. A request has ended if it had no path, if the last token
// it emitted is kNoToken or a stop token, or if it may emit no more tokens.
struct AdvanceRequestsParams {
  int max_requests;           // B
  int max_context;            // Positions.
  RowPath path;               // The accepted paths of the round.
  const int32_t* next_token;  // [B] the last token emitted.
  const int32_t* first_stop;  // [B + 1]
  const int32_t* stop_token;  // [first_stop[B]]
  SamplingControl* control;   // [B] in and out.
  int32_t* committed;         // [B] in and out.
  int32_t* node_limit;        // [B] out: positions left; 0 if it has ended.
  int32_t* depth_limit;       // [B] out: tokens left.
};

// The most nodes of one tree that can be verified together.
inline constexpr int kMaxTreeNodes = 128;

// Selects the nodes that the batch verifies next. The result is that of
// SelectNodes() of common/select_nodes.h and PackForest() of
// common/packed_forest.h, node for node and bit for bit in the masks. Node 0 of
// request b's tree is root[b], and node c + 1 is its candidate c; trees are in
// the order of the requests.
//
// A request with node_limit 0 gets no rows, whatever its bounds. Each of the
// others gets a row for its root, and then its likeliest candidates until it
// has `floor` nodes, if it has that many. The rest of the budget goes to the
// likeliest candidates of the whole batch. No tree has more than min(cap,
// max_nodes_per_tree, node_limit) nodes, its root included, or nodes deeper
// than depth_limit. This equals SelectNodes() on trees that TrimTree() of
// common/trim_tree.h has trimmed.
//
// REQUIRES: the floors of requests with rows, each reduced to what its tree can
// have, add up to at most *budget; *budget <= max_rows; 1 <= floor[b], cap[b];
// log_rho is as CandidateTrees says, without NaN.
struct SelectForestParams {
  int max_requests;  // B
  int max_rows;      // N
  int mask_words;    // W >= max_nodes_per_tree / 32, rounded up; bits of nodes
                     // that do not exist are 0.
  DraftShape shape;  // C
  int max_nodes_per_tree;      // 1 .. kMaxTreeNodes; bounds every cap.
  const int32_t* budget;       // [1] nodes of the batch.
  const int32_t* floor;        // [B]
  const int32_t* cap;          // [B]
  const int32_t* root;         // [B] pending tokens.
  const int32_t* node_limit;   // [B]
  const int32_t* depth_limit;  // [B] 0: the root alone.
  CandidateTrees trees;
  // Out, as in RowBatch:
  int32_t* num_rows;    // [1]
  int32_t* first_row;   // [B + 1]
  int32_t* request;     // [N]
  int32_t* node;        // [N]
  int32_t* parent;      // [N]
  int32_t* depth;       // [N]
  uint32_t* ancestors;  // [N, W]
  int32_t* token;       // [N]
};

}  // namespace bole

#endif  // BOLE_KERNELS_DRAFTING_H_
