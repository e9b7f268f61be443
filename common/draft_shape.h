#ifndef BOLE_COMMON_DRAFT_SHAPE_H_
#define BOLE_COMMON_DRAFT_SHAPE_H_

namespace bole {

// Shape of a proposal (EAGLE-2): every expanded node gets top_k children, on
// `depth` levels; top_k nodes of a level are expanded on the next. With top_k 1
// the proposal is a chain.
struct DraftShape {
  int top_k = 4;
  int depth = 8;

  // C: top_k candidates at level 0, top_k * top_k at each further level.
  constexpr int num_candidates() const {
    return top_k + (depth - 1) * top_k * top_k;
  }
  // Rows that the drafter runs after the extend pass: top_k per further level.
  constexpr int num_draft_nodes() const { return (depth - 1) * top_k; }
  // KV rows that the drafter needs beyond those of the committed tokens: that
  // of the pending token, then those of its own nodes.
  constexpr int num_kv_rows() const { return 1 + num_draft_nodes(); }

  friend bool operator==(const DraftShape&, const DraftShape&) = default;
};

// How many nodes of a tree are verified, its root included, unless a scheduler
// is configured otherwise.
inline constexpr int kDefaultTreeNodes = 32;

inline constexpr int kMaxDraftTopK = 16;
inline constexpr int kMaxDraftDepth = 16;

}  // namespace bole

#endif  // BOLE_COMMON_DRAFT_SHAPE_H_
