#include "worker_service/engine/drafter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/check.h"
#include "common/status_macros.h"
#include "worker_service/model/head.h"

namespace bole {
namespace {

int MaskWords(const DraftShape& shape) {
  return std::max(1, (shape.num_draft_nodes() + 31) / 32);
}

}  // namespace

Drafter::Drafter(const ModelConfig& config, OperatorSet& operators,
                 MtpLayer& layer, const Options& options, DeviceArrays& arrays)
    : config_(config), operators_(operators), layer_(layer), options_(options) {
  const int64_t requests = options.max_requests;
  const int64_t rows = options.max_rows;
  const int64_t lanes = requests * options.max_shape.top_k;
  const int64_t hidden = config.hidden_size;
  const auto ints = [&](int64_t count) {
    return arrays.Array<int32_t>(count, "drafter: rows");
  };
  num_rows_ = ints(1);
  request_ = ints(rows);
  node_ = ints(rows);
  parent_ = ints(rows);
  row_token_ = ints(rows);
  hidden_row_ = ints(rows);
  last_row_ = ints(requests);
  next_committed_ = ints(requests);
  extend_hidden_ = arrays.Activations(rows * hidden, "drafter: hidden");

  lane_token_ = ints(lanes);
  lane_parent_ = ints(lanes);
  lane_hidden_ = ints(lanes);
  lane_ancestors_ = arrays.Array<uint32_t>(lanes * MaskWords(options.max_shape),
                                           "drafter: ancestors");
  frontier_ = ints(lanes);
  for (Activation*& buffer : hidden_) {
    buffer = arrays.Activations(lanes * hidden, "drafter: hidden");
  }
  logits_ =
      arrays.Array<float>(lanes * layer.head().most_rows(), "drafter: logits");
  top_token_ = ints(lanes * options.max_shape.top_k);
  top_log_prob_ =
      arrays.Array<float>(lanes * options.max_shape.top_k, "drafter: scores");
}

void Drafter::Bind(int max_requests, const DraftShape& shape, TransferBlock& up,
                   TransferBlock& down) {
  max_requests_ = max_requests;
  shape_ = shape;
  const DraftShape& most = options_.max_shape;
  const int64_t lanes = static_cast<int64_t>(max_requests) * most.top_k;
  counts_ = up.Take<int32_t>(2);
  lane_first_ = up.Take<int32_t>(max_requests + 1);
  lane_request_ = up.Take<int32_t>(lanes);
  lane_node_ = up.Take<int32_t>(most.depth * lanes);
  lane_depth_ = up.Take<int32_t>(most.depth * lanes);
  const int64_t candidates =
      static_cast<int64_t>(max_requests) * most.num_candidates();
  tree_token_ = down.Take<int32_t>(candidates);
  tree_parent_ = down.Take<int32_t>(candidates);
  tree_log_rho_ = down.Take<float>(candidates);
}

void Drafter::Fill(int num_requests) {
  const int k = shape_.top_k;
  const int lanes = max_requests_ * k;
  counts_.host[0] = num_requests;
  counts_.host[1] = num_requests * k;
  for (int b = 0; b <= max_requests_; ++b) {
    lane_first_.host[b] = std::min(b, num_requests) * k;
  }
  for (int i = 0; i < lanes; ++i) lane_request_.host[i] = i / k;
  for (int level = 0; level < shape_.depth; ++level) {
    for (int i = 0; i < lanes; ++i) {
      lane_node_.host[level * lanes + i] = level * k + i % k;
      lane_depth_.host[level * lanes + i] = level;
    }
  }
}

absl::Status Drafter::Extend(const Committed& committed) {
  BOLE_RETURN_IF_ERROR(
      operators_.ExtendRows({.max_requests = committed.batch.max_requests,
                             .max_rows = committed.max_path_rows,
                             .path = committed.path,
                             .token = committed.token,
                             .next_token = committed.next_token,
                             .committed = committed.batch.committed,
                             .num_extended = committed.num_seen,
                             .next_committed = next_committed_,
                             .num_rows = num_rows_,
                             .request = request_,
                             .node = node_,
                             .parent = parent_,
                             .row_token = row_token_,
                             .hidden_row = hidden_row_,
                             .last_row = last_row_}));
  RowBatch batch = committed.batch;
  batch.mask_words = 0;
  batch.max_path = 0;
  batch.rows = {num_rows_, committed.max_path_rows};
  batch.first_row = committed.path.first;
  batch.request = request_;
  batch.node = node_;
  batch.parent = parent_;
  batch.depth = node_;
  batch.ancestors = nullptr;
  return layer_.Forward({.batch = batch,
                         .token = row_token_,
                         .hidden = committed.hidden,
                         .hidden_row = hidden_row_},
                        extend_hidden_);
}

// Finds the top_k continuations of each hidden vector.
absl::Status Drafter::Score(RowCount rows, const Activation* hidden) {
  const Head head = layer_.head();
  const bool is_full = head.token_of == nullptr;
  BOLE_RETURN_IF_ERROR(layer_.Logits(rows, hidden, logits_));
  return operators_.TopK(
      {.rows = rows,
       .vocabulary = head.columns(),
       .num_valid_tokens = is_full ? options_.num_valid_tokens : head.columns(),
       .top_k = shape_.top_k,
       .logits = logits_,
       .rank_columns = head.rows,
       .token_of = head.token_of,
       .token = top_token_,
       .log_prob = top_log_prob_});
}

// The frontier that was chosen at `level`, as a batch of rows for the drafter.
RowBatch Drafter::LaneBatch(const Committed& committed, int level) const {
  const int lanes = max_requests_ * shape_.top_k;
  const int64_t first = static_cast<int64_t>(level) * lanes;
  RowBatch batch = committed.batch;
  batch.mask_words = MaskWords(shape_);
  batch.max_path = 0;
  batch.rows = {counts_.DeviceFrom(1), lanes};
  batch.first_row = lane_first_.device;
  batch.request = lane_request_.device;
  batch.node = lane_node_.DeviceFrom(first);
  batch.depth = lane_depth_.DeviceFrom(first);
  batch.parent = lane_parent_;
  batch.ancestors = lane_ancestors_;
  batch.committed = next_committed_;
  return batch;
}

absl::Status Drafter::Grow(const Committed& committed) {
  const RowCount requests = {counts_.device, max_requests_};
  Activation* hidden = hidden_[0];
  Activation* next_hidden = hidden_[1];
  BOLE_RETURN_IF_ERROR(operators_.GatherRows({.rows = requests,
                                              .width = config_.hidden_size,
                                              .index = last_row_,
                                              .x = extend_hidden_,
                                              .out = hidden}));
  RowCount scored = requests;
  for (int level = 0; level < shape_.depth; ++level) {
    BOLE_RETURN_IF_ERROR(Score(scored, hidden));
    BOLE_RETURN_IF_ERROR(operators_.GrowTrees({.max_requests = max_requests_,
                                               .requests = requests,
                                               .shape = shape_,
                                               .level = level,
                                               .mask_words = MaskWords(shape_),
                                               .top_token = top_token_,
                                               .top_log_prob = top_log_prob_,
                                               .trees = trees(),
                                               .frontier = frontier_,
                                               .row_token = lane_token_,
                                               .row_parent = lane_parent_,
                                               .hidden_row = lane_hidden_,
                                               .ancestors = lane_ancestors_}));
    if (level + 1 == shape_.depth) break;  // Nothing left to expand.
    const RowBatch batch = LaneBatch(committed, level);
    BOLE_RETURN_IF_ERROR(layer_.Forward({.batch = batch,
                                         .token = lane_token_,
                                         .hidden = hidden,
                                         .hidden_row = lane_hidden_},
                                        next_hidden));
    std::swap(hidden, next_hidden);
    scored = batch.rows;
  }
  return absl::OkStatus();
}

std::vector<ProposalTree> Drafter::Results(
    const TransferBlock& down, int image, std::span<const int32_t> root) const {
  const size_t num_candidates = shape_.num_candidates();
  const auto token = down.InImage(tree_token_, image);
  const auto parent = down.InImage(tree_parent_, image);
  const auto log_rho = down.InImage(tree_log_rho_, image);
  std::vector<ProposalTree> trees(root.size());
  for (size_t b = 0; b < root.size(); ++b) {
    ProposalTree& tree = trees[b];
    tree.parent = {kNoParent};
    tree.token = {root[b]};
    tree.log_rho = {0.0f};
    for (size_t c = b * num_candidates; c < (b + 1) * num_candidates; ++c) {
      tree.parent.push_back(parent[c] + 1);  // Candidate c is node c + 1.
      tree.token.push_back(token[c]);
      tree.log_rho.push_back(log_rho[c]);
    }
  }
  return trees;
}

void Drafter::AddPromised(const TransferBlock& down, int image,
                          const PackedForest& forest,
                          std::span<SequenceResult> results) const {
  const int num_candidates = shape_.num_candidates();
  const auto token = down.InImage(tree_token_, image);
  const auto parent = down.InImage(tree_parent_, image);
  const auto log_rho = down.InImage(tree_log_rho_, image);
  // For each node of the tree its index among the selected ones, or kNoParent.
  std::vector<int32_t> node_of(1 + num_candidates);
  for (size_t b = 0; b < results.size(); ++b) {
    // Selected nodes are in the order of the candidates, and siblings have
    // different tokens, so the next selected node is the first candidate with
    // its token and parent.
    const int root = forest.first_node[b];
    const int end = forest.first_node[b + 1];
    const size_t first = b * num_candidates;
    std::fill(node_of.begin() + 1, node_of.end(), kNoParent);
    float promised = 0;
    int row = root + 1;
    for (int c = 0; c < num_candidates && row < end; ++c) {
      if (token[first + c] != forest.token[row] ||
          node_of[1 + parent[first + c]] != forest.parent[row]) {
        continue;
      }
      node_of[1 + c] = row++ - root;
      promised += std::exp(log_rho[first + c]);
    }
    BOLE_DCHECK(row >= end);
    results[b].promised_drafts = promised;
  }
}

}  // namespace bole
