// Proposes the next candidate trees with the model's MTP layer, growing the
// likeliest nodes level by level as EAGLE-2 does.
#ifndef BOLE_WORKER_SERVICE_ENGINE_DRAFTER_H_
#define BOLE_WORKER_SERVICE_ENGINE_DRAFTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/draft_shape.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "kernels/operator_set.h"
#include "worker_service/engine/transfer_block.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/mtp_layer.h"

namespace bole {

// Runs the MTP layer over the tokens that were just committed, then grows a
// tree level by level. The drafter's keys and values of the tree are stored
// after the committed ones and are overwritten by the next extend. MtpLayer
// tells where a drafter slot lies in the pages.
//
// A copy shares the buffers but has a layout of its own. It can draft for a
// second batch before or after the first.
//
// Invariant: before Grow(), drafter slots 0 .. committed - 1 are filled, slot
// p from the token at p + 1 and the target's hidden vector at p.
class Drafter {
 public:
  struct Options {
    int max_requests;
    int max_rows;  // The most rows of an extend pass, for all buckets.
    DraftShape max_shape;
    int num_valid_tokens;  // Only ids below it are proposed.
  };
  // Holds references; `layer` must outlive it. Allocation errors stick in
  // `arrays`.
  Drafter(const ModelConfig& config, OperatorSet& operators, MtpLayer& layer,
          const Options& options, DeviceArrays& arrays);

  // What the target has just committed.
  struct Committed {
    RowBatch batch;        // The batch of the target's forward.
    const int32_t* token;  // The batch's tokens.
    RowPath path;
    int max_path_rows;  // Bucket of the extend: rows of all paths together.
    const int32_t* next_token;  // [B] the token after the path.
    const Activation* hidden;   // [N, H] of the target, by row.
    // [1] How many requests, from the first on, show the drafter their paths.
    const int32_t* num_seen;
  };

  // Takes the arrays that Grow() reads for a batch of at most max_requests from
  // the block that is uploaded, and the trees that it writes from the block
  // that is downloaded. Addresses do not depend on the shape.
  void Bind(int max_requests, const DraftShape& shape, TransferBlock& up,
            TransferBlock& down);
  // Fills the arrays that depend on how many requests, from the first of a
  // batch on, are drafted for.
  void Fill(int num_requests);
  // The same number on the device, once it has been uploaded. [1]
  const int32_t* num_drafted() const { return counts_.device; }

  // Fills the drafter's slots of the committed tokens.
  absl::Status Extend(const Committed& committed);

  // Grows a tree of the shape last bound for every request of Fill().
  // REQUIRES: Extend() ran for `committed`, whose batch has the max_requests
  // of Bind(), and each of these requests had a path since Fill(); pages for
  // shape.num_kv_rows() KV rows beyond the path.
  absl::Status Grow(const Committed& committed);

  CandidateTrees trees() const {
    return {tree_token_.device, tree_parent_.device, tree_log_rho_.device};
  }
  // committed + length of the path, after Extend(). [B]
  const int32_t* next_committed() const { return next_committed_; }

  // The first root.size() trees in an image of the downloaded block; `root` has
  // each tree's pending token.
  std::vector<ProposalTree> Results(const TransferBlock& down, int image,
                                    std::span<const int32_t> root) const;
  // Sets SequenceResult::promised_drafts of a round whose forest was selected
  // from the trees in an image. REQUIRES: one result for each of the forest's
  // requests, all of which were drafted for. COST: O(candidates).
  void AddPromised(const TransferBlock& down, int image,
                   const PackedForest& forest,
                   std::span<SequenceResult> results) const;

 private:
  absl::Status Score(RowCount rows, const Activation* hidden);
  RowBatch LaneBatch(const Committed& committed, int level) const;

  const ModelConfig& config_;
  OperatorSet& operators_;
  MtpLayer& layer_;
  Options options_;

  // The extend pass.
  int32_t *num_rows_, *request_, *node_, *parent_, *row_token_, *hidden_row_;
  int32_t* last_row_;        // [B]
  int32_t* next_committed_;  // [B]
  Activation* extend_hidden_;

  // The lanes: top_k rows per request and level, as last bound.
  int max_requests_ = 0;  // B
  DraftShape shape_;
  TransferArray<int32_t> counts_;        // [2] requests, lanes.
  TransferArray<int32_t> lane_first_;    // [B + 1]
  TransferArray<int32_t> lane_request_;  // [B * k]
  TransferArray<int32_t> lane_node_;     // [D, B * k]
  TransferArray<int32_t> lane_depth_;    // [D, B * k]
  int32_t* lane_token_;                  // [B * k]
  int32_t* lane_parent_;                 // [B * k]
  int32_t* lane_hidden_;                 // [B * k] row of the previous level.
  uint32_t* lane_ancestors_;
  int32_t* frontier_;      // [B, k]
  Activation* hidden_[2];  // [B * k, H] of this level and of the next, swapped.
  float* logits_;          // [B * k, columns of the layer's head on the rank]
  int32_t* top_token_;     // [B * k, k]
  float* top_log_prob_;    // [B * k, k]
  TransferArray<int32_t> tree_token_, tree_parent_;  // [B, C]
  TransferArray<float> tree_log_rho_;                // [B, C]
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_DRAFTER_H_
