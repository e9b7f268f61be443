#include "worker_service/drafter.h"

#include <utility>

#include "common/status_macros.h"

namespace bole {

Drafter::Drafter(const ModelConfig& config, Backend& backend,
                 HybridModel& model, MtpLayer& layer, const Options& options,
                 DeviceArrays& arrays)
    : config_(config),
      backend_(backend),
      model_(model),
      layer_(layer),
      options_(options),
      mask_words_((options.max_shape.num_draft_nodes() + 31) / 32) {
  const int64_t requests = options.max_requests;
  const int64_t rows = options.max_rows;
  const int64_t lanes = requests * options.max_shape.top_k;
  const int64_t levels = options.max_shape.depth;
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

  counts_ = ints(2);
  lane_first_ = ints(requests + 1);
  lane_request_ = ints(lanes);
  lane_node_ = ints(levels * lanes);
  lane_depth_ = ints(levels * lanes);
  lane_token_ = ints(lanes);
  lane_parent_ = ints(lanes);
  lane_hidden_ = ints(lanes);
  lane_ancestors_ =
      arrays.Array<uint32_t>(lanes * mask_words_, "drafter: ancestors");
  frontier_ = ints(lanes);
  for (Activation*& buffer : hidden_) {
    buffer = arrays.Activations(lanes * hidden, "drafter: hidden");
  }
  logits_ = arrays.Array<float>(lanes * config.vocab_size, "drafter: logits");
  top_token_ = ints(lanes * options.max_shape.top_k);
  top_log_prob_ =
      arrays.Array<float>(lanes * options.max_shape.top_k, "drafter: scores");
  const int64_t candidates = requests * options.max_shape.num_candidates();
  trees_ = {.token = ints(candidates),
            .parent = ints(candidates),
            .log_rho = arrays.Array<float>(candidates, "drafter: trees")};
}

absl::Status Drafter::Extend(const Committed& committed) {
  BOLE_RETURN_IF_ERROR(
      backend_.ExtendRows({.max_requests = options_.max_requests,
                           .max_rows = options_.max_rows,
                           .path = committed.path,
                           .token = committed.token,
                           .next_token = committed.next_token,
                           .committed = committed.batch.committed,
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
  batch.rows = extend_rows();
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

// The rows that change with the number of requests, not with their content.
absl::Status Drafter::UploadLanes(int num_requests, const DraftShape& shape) {
  const int lanes = num_requests * shape.top_k;
  std::vector<int32_t> first(options_.max_requests + 1, lanes);
  std::vector<int32_t> request(lanes);
  std::vector<int32_t> node;
  std::vector<int32_t> depth;
  for (int b = 0; b < num_requests; ++b) first[b] = b * shape.top_k;
  for (int i = 0; i < lanes; ++i) request[i] = i / shape.top_k;
  for (int level = 0; level < shape.depth; ++level) {
    for (int i = 0; i < lanes; ++i) {
      node.push_back(level * shape.top_k + i % shape.top_k);
      depth.push_back(level);
    }
  }
  const std::vector<int32_t> counts = {num_requests, lanes};
  absl::Status status;
  const auto upload = [&](int32_t* device, const std::vector<int32_t>& host) {
    status.Update(
        backend_.Upload(device, host.data(), host.size() * sizeof(host[0])));
  };
  upload(counts_, counts);
  upload(lane_first_, first);
  upload(lane_request_, request);
  upload(lane_node_, node);
  upload(lane_depth_, depth);
  return status;
}

// The top_k continuations of each hidden vector.
absl::Status Drafter::Score(RowCount rows, const Activation* hidden,
                            int top_k) {
  BOLE_RETURN_IF_ERROR(model_.Logits(rows, hidden, logits_));
  return backend_.TopK({.rows = rows,
                        .vocabulary = config_.vocab_size,
                        .num_valid_tokens = options_.num_valid_tokens,
                        .top_k = top_k,
                        .logits = logits_,
                        .token = top_token_,
                        .log_prob = top_log_prob_});
}

// The frontier that `level` chose, as rows of the drafter.
RowBatch Drafter::LaneBatch(const Committed& committed, const DraftShape& shape,
                            int level) const {
  const int64_t first =
      static_cast<int64_t>(level) * committed.num_requests * shape.top_k;
  RowBatch batch = committed.batch;
  batch.mask_words = mask_words_;
  batch.rows = {counts_ + 1, options_.max_requests * shape.top_k};
  batch.first_row = lane_first_;
  batch.request = lane_request_;
  batch.node = lane_node_ + first;
  batch.depth = lane_depth_ + first;
  batch.parent = lane_parent_;
  batch.ancestors = lane_ancestors_;
  batch.committed = next_committed_;
  return batch;
}

absl::Status Drafter::Grow(const Committed& committed,
                           const DraftShape& shape) {
  BOLE_RETURN_IF_ERROR(UploadLanes(committed.num_requests, shape));
  const RowCount requests = {counts_, options_.max_requests};
  Activation* hidden = hidden_[0];
  Activation* next_hidden = hidden_[1];
  BOLE_RETURN_IF_ERROR(backend_.GatherRows({.rows = requests,
                                            .width = config_.hidden_size,
                                            .index = last_row_,
                                            .x = extend_hidden_,
                                            .out = hidden}));
  RowCount scored = requests;
  for (int level = 0; level < shape.depth; ++level) {
    BOLE_RETURN_IF_ERROR(Score(scored, hidden, shape.top_k));
    BOLE_RETURN_IF_ERROR(
        backend_.GrowTrees({.max_requests = options_.max_requests,
                            .requests = requests,
                            .shape = shape,
                            .level = level,
                            .mask_words = mask_words_,
                            .top_token = top_token_,
                            .top_log_prob = top_log_prob_,
                            .trees = trees_,
                            .frontier = frontier_,
                            .row_token = lane_token_,
                            .row_parent = lane_parent_,
                            .hidden_row = lane_hidden_,
                            .ancestors = lane_ancestors_}));
    if (level + 1 == shape.depth) break;  // Nothing left to expand.
    const RowBatch batch = LaneBatch(committed, shape, level);
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

absl::StatusOr<std::vector<ProposalTree>> Drafter::Download(
    std::span<const int32_t> root, const DraftShape& shape) {
  const int num_candidates = shape.num_candidates();
  const size_t count = root.size() * num_candidates;
  std::vector<int32_t> token(count);
  std::vector<int32_t> parent(count);
  std::vector<float> log_rho(count);
  BOLE_RETURN_IF_ERROR(
      backend_.Download(token.data(), trees_.token, count * sizeof(int32_t)));
  BOLE_RETURN_IF_ERROR(
      backend_.Download(parent.data(), trees_.parent, count * sizeof(int32_t)));
  BOLE_RETURN_IF_ERROR(
      backend_.Download(log_rho.data(), trees_.log_rho, count * sizeof(float)));
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

}  // namespace bole
