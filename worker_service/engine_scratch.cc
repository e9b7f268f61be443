// The engine's part that finds out how much scratch its operators need: every
// operator is called with every shape that it can have, on a backend that only
// notes what it would need. The largest shape is not always the one that needs
// most: attention, for one, divides a request's tokens among more blocks where
// there are few rows, and merges through scratch what they found.
#include <algorithm>
#include <set>
#include <utility>

#include "common/status_macros.h"
#include "worker_service/engine.h"
#include "worker_service/engine_prefill.h"

namespace bole {

absl::Status Engine::QueueAllPasses() {
  TransferBlock up, down;  // Without memory.
  BOLE_RETURN_IF_ERROR(QueueForests(up, down));
  BOLE_RETURN_IF_ERROR(QueueChunks(up, down));
  return drafter_ ? QueueDrafts(up, down) : absl::OkStatus();
}

// From the choice of a forest to its commit, of every plan that Validate()
// accepts.
absl::Status Engine::QueueForests(TransferBlock& up, TransferBlock& down) {
  const auto queue = [&](const RoundShape& shape) -> absl::Status {
    LayRound(shape, up, down);
    BOLE_RETURN_IF_ERROR(QueueNextForest(shape));
    BOLE_RETURN_IF_ERROR(QueueForward(shape));
    return QueueAccept(shape);
  };
  for (const int requests : RequestBuckets(options_.max_requests)) {
    RoundShape shape{.is_decode = true,
                     .requests = requests,
                     .rows = requests,
                     .mask_words = 1,
                     .max_path = options_.max_draft.depth + 1,
                     .path_rows = requests,
                     .max_nodes_per_tree = options_.max_nodes_per_tree};
    BOLE_RETURN_IF_ERROR(queue(shape));
    shape.is_decode = false;
    for (const int rows : RowBuckets(options_.max_nodes)) {
      shape.rows = rows;
      for (int words = 1; words <= options_.MaskWords(); ++words) {
        shape.mask_words = words;
        for (const int max_path : {options_.max_draft.depth + 1, rows}) {
          shape.max_path = max_path;
          BOLE_RETURN_IF_ERROR(queue(shape));
        }
      }
    }
  }
  return absl::OkStatus();
}

// The drafter's extend and growth, of every number of rows and every shape of a
// draft. Neither depends on the forest besides.
absl::Status Engine::QueueDrafts(TransferBlock& up, TransferBlock& down) {
  const int max_rows =
      std::max(options_.max_nodes, options_.max_prefill_tokens);
  std::set<int> path_rows;
  for (const int max : {options_.max_nodes, options_.max_prefill_tokens}) {
    for (const int rows : RowBuckets(max)) path_rows.insert(rows);
  }
  for (const int requests : RequestBuckets(options_.max_requests)) {
    RoundShape shape{.is_decode = false,
                     .requests = requests,
                     .rows = max_rows,
                     .mask_words = 1,
                     .path_rows = requests};
    path_rows.insert(requests);  // Of a decode.
    for (const int rows : path_rows) {
      shape.path_rows = rows;
      LayRound(shape, up, down);
      BOLE_RETURN_IF_ERROR(drafter_->Extend(CommittedOf(shape)));
    }
    for (int top_k = 1; top_k <= options_.max_draft.top_k; ++top_k) {
      for (int depth = 1; depth <= options_.max_draft.depth; ++depth) {
        shape.draft = DraftShape{.top_k = top_k, .depth = depth};
        LayRound(shape, up, down);
        BOLE_RETURN_IF_ERROR(drafter_->Grow(CommittedOf(shape)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::QueueChunks(TransferBlock& up, TransferBlock& down) {
  for (const int requests : RequestBuckets(options_.max_requests)) {
    for (const int rows : RowBuckets(options_.max_prefill_tokens)) {
      LayPrefill({.requests = requests, .rows = rows, .draft = std::nullopt},
                 up, down);
      BOLE_RETURN_IF_ERROR(QueuePrefill(StepPlan(), /*any_last=*/true));
    }
  }
  return absl::OkStatus();
}

}  // namespace bole
