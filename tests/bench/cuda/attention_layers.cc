#include "tests/bench/cuda/attention_layers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "tests/bench/cuda/draft_trees.h"
#include "tests/bench/cuda/gdn_layers.h"
#include "tests/bench/cuda/gpu_bench.h"
#include "tests/testing/random_forest.h"

namespace bole::cuda {
namespace {

using ::bole::testing::HostBatch;
using ::bole::testing::Parents;

constexpr int kPathNodes = 7;

int64_t Rows(const AttentionLoad& load) {
  return static_cast<int64_t>(load.num_requests) * load.num_nodes;
}

int PagesOf(const AttentionLoad& load) {
  return (load.num_committed + load.num_nodes + AttentionLayers::kPageSize -
          1) /
         AttentionLayers::kPageSize;
}

HostBatch MakeBatch(const AttentionLoad& load, std::vector<Parents>& trees) {
  std::mt19937 rng(1);
  for (int b = 0; b < load.num_requests; ++b) {
    trees.push_back(load.chains ? testing::ChainParents(load.num_nodes)
                                : DraftTree(rng, {.num_nodes = load.num_nodes,
                                                  .max_depth = std::min(
                                                      8, load.num_nodes - 1),
                                                  .top_k = 4}));
  }
  HostBatch batch = testing::PackTrees(trees, {.chains = load.chains});
  for (int b = 0; b < load.num_requests; ++b) {
    batch.committed[b] = load.num_committed;
  }
  batch.max_pages = AttentionLayers::kContext / AttentionLayers::kPageSize;
  return batch;
}

std::vector<int32_t> ShuffledPages(const AttentionLoad& load, int max_pages) {
  const int pages = PagesOf(load);
  std::vector<int32_t> shuffled(static_cast<size_t>(load.num_requests) * pages);
  std::iota(shuffled.begin(), shuffled.end(), 0);
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(2));
  std::vector<int32_t> table(static_cast<size_t>(load.num_requests) *
                             max_pages);
  for (int b = 0; b < load.num_requests; ++b) {
    std::copy_n(shuffled.begin() + static_cast<int64_t>(b) * pages, pages,
                table.begin() + static_cast<int64_t>(b) * max_pages);
  }
  return table;
}

std::vector<float> InverseFrequencies(int rotary_dim) {
  std::vector<float> values(rotary_dim / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(
        std::pow(1e7, -2.0 * static_cast<double>(i) / rotary_dim));
  }
  return values;
}

}  // namespace

int64_t AttentionBytes(const AttentionLoad& load) {
  constexpr int64_t kElement = 2;
  const int64_t tokens =
      int64_t{load.num_requests} * (load.num_committed + load.num_nodes);
  // Each row has queries, gates and outputs.
  return kElement * (2 * tokens * load.shape.kv_width() +
                     3 * Rows(load) * load.shape.query_width());
}

int64_t AttentionFlops(const AttentionLoad& load) {
  const int64_t own =
      load.chains ? (load.num_nodes + 1) / 2 : std::min(load.num_nodes, 8);
  return 4 * Rows(load) * load.shape.query_width() * (load.num_committed + own);
}

absl::StatusOr<std::unique_ptr<AttentionPool>> AttentionPool::Create(
    CudaBackend& backend, int64_t head_tokens, int64_t row_elements) {
  std::unique_ptr<AttentionPool> pool(new AttentionPool());
  pool->head_tokens_ = head_tokens;
  const auto fill = [&](int64_t count, uint64_t seed,
                        DeviceMemory& memory) -> absl::Status {
    BOLE_ASSIGN_OR_RETURN(
        memory, RandomActivations(backend, count, /*deviation=*/1, seed));
    return absl::OkStatus();
  };
  constexpr int kHeadDim = 256;
  BOLE_RETURN_IF_ERROR(fill(head_tokens * kHeadDim, 1, pool->k_));
  BOLE_RETURN_IF_ERROR(fill(head_tokens * kHeadDim, 2, pool->v_));
  BOLE_RETURN_IF_ERROR(fill(row_elements, 3, pool->projected_));
  BOLE_RETURN_IF_ERROR(fill(row_elements, 4, pool->q_));
  BOLE_RETURN_IF_ERROR(fill(row_elements, 5, pool->out_));
  return pool;
}

AttentionLayers::AttentionLayers(CudaBackend& backend, AttentionPool& pool,
                                 const AttentionLoad& load)
    : arrays_(backend) {
  constexpr int64_t kWorkingSet = int64_t{256} << 20;
  constexpr int64_t kMaxLayers = 32;
  std::vector<Parents> trees;
  const HostBatch host = MakeBatch(load, trees);
  RowBatch batch = CopyBatch(host, arrays_);
  batch.page_table =
      arrays_.Copy(ShuffledPages(load, host.max_pages), "page table");
  const int num_pages = load.num_requests * PagesOf(load);
  const int64_t layer_head_tokens =
      int64_t{num_pages} * kPageSize * load.shape.kv_heads;
  const int64_t layers =
      std::min({kMaxLayers, kWorkingSet / (layer_head_tokens * 1024) + 1,
                pool.head_tokens() / layer_head_tokens});
  const KvPages pages = {.k = static_cast<Activation*>(pool.k_.get()),
                         .v = static_cast<Activation*>(pool.v_.get()),
                         .num_layers = static_cast<int>(layers),
                         .num_pages = num_pages,
                         .page_size = kPageSize};
  attend_ = {.batch = batch,
             .shape = load.shape,
             .pages = pages,
             .layer = 0,
             .q = static_cast<Activation*>(pool.q_.get()),
             .projected = static_cast<Activation*>(pool.projected_.get()),
             .out = static_cast<Activation*>(pool.out_.get())};
  const std::vector<float> ones(load.shape.head_dim, 1.0f);
  prepare_ = {.batch = batch,
              .shape = load.shape,
              .pages = pages,
              .layer = 0,
              .epsilon = 1e-6f,
              .projected = attend_.projected,
              .q_norm = arrays_.Copy(ones, "norm"),
              .k_norm = arrays_.Copy(ones, "norm"),
              .inverse_frequency = arrays_.Copy(
                  InverseFrequencies(load.shape.rotary_dim), "frequencies"),
              .rotary_scale = 1,
              .q = static_cast<Activation*>(pool.q_.get())};
  std::vector<std::vector<int>> paths;
  paths.reserve(trees.size());
  for (const Parents& tree : trees) {
    paths.push_back(DeepestPath(tree, kPathNodes));
  }
  const testing::HostPath path = testing::MakePath(host, paths);
  const auto copy = [&](const testing::GuardedBuffer<int32_t>& values) {
    return arrays_.Copy(
        std::vector<int32_t>(values.data(), values.data() + values.size()),
        "paths");
  };
  path_ = {.first = copy(path.first), .row = copy(path.row)};
}

AttentionParams AttentionLayers::Attend(int layer) const {
  AttentionParams params = attend_;
  params.layer = layer;
  return params;
}

QkvParams AttentionLayers::PrepareQkv(int layer) const {
  QkvParams params = prepare_;
  params.layer = layer;
  return params;
}

CompactKvParams AttentionLayers::Compact() const {
  return {.batch = attend_.batch,
          .path = path_,
          .shape = attend_.shape,
          .pages = attend_.pages,
          .num_layers = attend_.pages.num_layers};
}

}  // namespace bole::cuda
