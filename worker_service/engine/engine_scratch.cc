// The part of the engine that finds out how much scratch memory its operators
// need: every operator is called with every shape that it can have, on a
// backend that only records how much it would need. The largest shape does not
// always need the most. Attention, for example, splits a request's tokens among
// more blocks if there are few rows, and merges their partial results through
// scratch.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "common/draft_shape.h"
#include "common/status_macros.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/engine_prefill.h"

namespace bole {
namespace {

// The shapes of all forests of `requests` requests that Validate() accepts:
// lone roots, and every number of rows and of mask words, with paths as long as
// the largest draft and with paths of any length.
std::vector<RoundShape> ForestShapes(const EngineOptions& options,
                                     int requests) {
  RoundShape shape{.is_decode = true,
                   .requests = requests,
                   .rows = requests,
                   .mask_words = 1,
                   .max_path = options.max_draft.depth + 1,
                   .path_rows = requests,
                   .max_nodes_per_tree = options.max_nodes_per_tree};
  std::vector<RoundShape> shapes = {shape};
  shape.is_decode = false;
  for (const int rows : RowBuckets(options.max_nodes)) {
    shape.rows = rows;
    for (int words = 1; words <= options.MaskWords(); ++words) {
      shape.mask_words = words;
      for (const int max_path : {options.max_draft.depth + 1, rows}) {
        shape.max_path = max_path;
        shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

// Every draft shape that is no larger than `most`.
std::vector<DraftShape> DraftShapes(const DraftShape& most) {
  std::vector<DraftShape> shapes;
  for (int top_k = 1; top_k <= most.top_k; ++top_k) {
    for (int depth = 1; depth <= most.depth; ++depth) {
      shapes.push_back({.top_k = top_k, .depth = depth});
    }
  }
  return shapes;
}

}  // namespace

absl::Status Engine::QueueAllPasses() {
  TransferBlock up, down;  // Without memory.
  BOLE_RETURN_IF_ERROR(QueueForests(up, down));
  BOLE_RETURN_IF_ERROR(QueueChunks());
  BOLE_RETURN_IF_ERROR(QueueJointForwards(up, down));
  return drafter_ ? QueueDrafts(up, down) : absl::OkStatus();
}

// Queues everything from the choice of a forest to its commit.
absl::Status Engine::QueueForests(TransferBlock& up, TransferBlock& down) {
  for (const int requests : RequestBuckets(options_.max_requests)) {
    for (const RoundShape& shape : ForestShapes(options_, requests)) {
      BindRound(shape, up, down);
      BOLE_RETURN_IF_ERROR(QueueNextForest(shape));
      BOLE_RETURN_IF_ERROR(QueueForward(shape));
      BOLE_RETURN_IF_ERROR(QueueAccept(shape));
    }
  }
  return absl::OkStatus();
}

// Queues the drafter's extend with every number of rows and its growth with
// every draft shape. Neither depends on anything else of the forest.
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
    path_rows.insert(requests);  // The rows of plain decoding.
    for (const int rows : path_rows) {
      shape.path_rows = rows;
      BindRound(shape, up, down);
      BOLE_RETURN_IF_ERROR(drafter_->Extend(CommittedOf(shape)));
    }
    for (const DraftShape& draft : DraftShapes(options_.max_draft)) {
      shape.draft = draft;
      BindRound(shape, up, down);
      BOLE_RETURN_IF_ERROR(drafter_->Grow(CommittedOf(shape)));
    }
  }
  return absl::OkStatus();
}

// Queues prefill passes, and passes of prompt rows whose log probabilities are
// requested.
absl::Status Engine::QueueChunks() {
  for (const int requests : RequestBuckets(options_.max_requests)) {
    BindPromptRows(requests);
    BOLE_RETURN_IF_ERROR(QueueHead());
    BOLE_RETURN_IF_ERROR(QueueDraws());
    for (const int rows : RowBuckets(options_.max_prefill_tokens)) {
      BindPrefill({.requests = requests, .rows = rows, .head_rows = 1});
      BOLE_RETURN_IF_ERROR(QueuePrefills());
    }
  }
  return absl::OkStatus();
}

// Queues forwards with every number of rows of chunks and forest together, and
// the head with every number of rows. The operators that run for chunks or a
// forest alone have been covered above.
absl::Status Engine::QueueJointForwards(TransferBlock& up,
                                        TransferBlock& down) {
  const int requests = RequestBucket(1, options_.max_requests);
  const RoundShape forest = ForestShapes(options_, requests).front();
  BindRound(forest, up, down);
  PrefillShape chunks{.requests = requests,
                      .rows = RowBucket(1, options_.max_prefill_tokens)};
  for (const int rows : RowBuckets(options_.MaxForwardRows())) {
    chunks.forward_rows = rows;
    BindPrefill(chunks);
    BOLE_RETURN_IF_ERROR(QueueJointForward(forest));
  }
  for (const int rows : RowBuckets(options_.MaxHeadRows())) {
    chunks.head_rows = rows;
    BindPrefill(chunks);
    BOLE_RETURN_IF_ERROR(QueueHead());
  }
  return absl::OkStatus();
}

}  // namespace bole
