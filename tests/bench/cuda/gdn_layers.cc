#include "tests/bench/cuda/gdn_layers.h"

#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>

#include "common/status_macros.h"
#include "tests/bench/cuda/draft_trees.h"
#include "tests/bench/cuda/gpu_bench.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"

namespace bole::cuda {
namespace {

using ::bole::testing::GuardedBuffer;
using ::bole::testing::HostBatch;
using ::bole::testing::Parents;

constexpr int kCommitted = 1000;
constexpr int kPageSize = 64;
constexpr AttentionShape kAttention = {
    .query_heads = 16, .kv_heads = 4, .head_dim = 256, .rotary_dim = 64};

template <typename T>
const T* Copy(const GuardedBuffer<T>& host, DeviceArrays& arrays) {
  const std::vector<T> values(host.data(), host.data() + host.size());
  return arrays.Copy(values, "a benchmark's batch");
}

Activation* At(Activation* base, int64_t element) {
  return reinterpret_cast<Activation*>(
      reinterpret_cast<char*>(base) +
      element * ElementBytes(ElementType::kBFloat16));
}

std::vector<float> Uniform(std::mt19937& rng, int64_t count, float low,
                           float high) {
  std::vector<float> values(count);
  for (float& x : values) x = testing::Uniform(rng, low, high);
  return values;
}

int64_t Rows(const GdnLayersOptions& o) {
  return static_cast<int64_t>(o.num_requests) * o.num_nodes;
}

int64_t StateBytes(const GdnLayersOptions& o) {
  return int64_t{4} * o.num_requests * o.shape.value_width() * o.shape.key_dim;
}

}  // namespace

RowBatch CopyBatch(const HostBatch& batch, DeviceArrays& arrays) {
  RowBatch view = batch.View();
  view.rows.count = Copy(batch.count, arrays);
  view.first_row = Copy(batch.first_row, arrays);
  view.request = Copy(batch.request, arrays);
  view.node = Copy(batch.node, arrays);
  view.parent = Copy(batch.parent, arrays);
  view.depth = Copy(batch.depth, arrays);
  view.ancestors = Copy(batch.ancestors, arrays);
  view.slot = Copy(batch.slot, arrays);
  view.committed = Copy(batch.committed, arrays);
  view.page_table = nullptr;
  return view;
}

int64_t GdnLayers::VerifyBytes(const GdnLayersOptions& o) {
  constexpr int64_t kActivation = 2;
  const GdnShape& s = o.shape;
  const int64_t row =
      kActivation * 2 * (s.key_width() + s.value_width()) +
      int64_t{sizeof(float)} * 2 * (s.key_heads + s.value_heads);
  return StateBytes(o) + Rows(o) * row;
}

int64_t GdnLayers::CorrectionBytes(const GdnLayersOptions& o) {
  return Rows(o) * o.shape.value_width() * int64_t{sizeof(float)};
}

int64_t GdnLayers::FactorBytes(const GdnLayersOptions& o) {
  constexpr int64_t kActivation = 2;
  const GdnShape& s = o.shape;
  return Rows(o) * o.num_layers *
         (kActivation * (s.key_width() + s.value_width()) +
          int64_t{sizeof(float)} * (s.key_heads + 2 * s.value_heads));
}

int64_t GdnLayers::RawBytes(const GdnLayersOptions& o) {
  constexpr int64_t kActivation = 2;
  return Rows(o) * o.num_layers * kActivation * o.shape.conv_width();
}

int64_t GdnLayers::NodeStateBytes(const GdnLayersOptions& o) {
  return Rows(o) * o.num_layers * o.shape.value_width() * o.shape.key_dim *
         int64_t{sizeof(float)};
}

int64_t GdnLayers::CommitBytes(const GdnLayersOptions& o) {
  return 2 * StateBytes(o);
}

absl::StatusOr<std::unique_ptr<GdnLayers>> GdnLayers::Create(
    CudaBackend& backend, const GdnLayersOptions& options) {
  std::unique_ptr<GdnLayers> layers(new GdnLayers(backend, options));
  BOLE_RETURN_IF_ERROR(layers->arrays_.status());
  BOLE_RETURN_IF_ERROR(layers->Fill(backend));
  return layers;
}

GdnLayers::GdnLayers(CudaBackend& backend, const GdnLayersOptions& options)
    : options_(options), arrays_(backend) {
  std::mt19937 rng(1);
  const GdnShape& s = options.shape;
  std::vector<Parents> trees;
  std::vector<std::vector<int>> paths;
  for (int b = 0; b < options.num_requests; ++b) {
    trees.push_back(DraftTree(rng, {.num_nodes = options.num_nodes,
                                    .max_depth = options.max_depth,
                                    .top_k = options.top_k}));
    paths.push_back(DeepestPath(trees.back(), options.num_accepted));
  }
  HostBatch batch = testing::PackTrees(trees);
  for (int b = 0; b < options.num_requests; ++b) {
    batch.committed[b] = kCommitted;
  }
  batch_ = CopyBatch(batch, arrays_);
  const testing::HostPath path = testing::MakePath(batch, paths);
  path_ = {.first = Copy(path.first, arrays_), .row = Copy(path.row, arrays_)};

  const int64_t rows = Rows(options) * options.num_layers;
  out_ = arrays_.Activations(rows * s.value_width(), "out");
  // Keys and queries are normal: these scales all but normalise them.
  const float scale = 1 / std::sqrt(static_cast<float>(s.key_dim));
  const auto copy = [&](const std::vector<float>& values) {
    return const_cast<float*>(arrays_.Copy(values, "gates"));
  };
  q_scale_ =
      copy(std::vector<float>(Rows(options) * s.key_heads, scale * scale));
  factors_.k_scale = copy(std::vector<float>(rows * s.key_heads, scale));
  factors_.beta = copy(Uniform(rng, rows * s.value_heads, 0.1f, 0.9f));
  factors_.log_decay = copy(Uniform(rng, rows * s.value_heads, -0.2f, -0.01f));
  factors_.layer_rows = static_cast<int>(Rows(options));
  if (options.keeps_node_states) {
    factors_.node_states = arrays_.Array<float>(
        NodeStateBytes(options) / int64_t{sizeof(float)}, "states of nodes");
  }
  states_ = {.state = nullptr,
             .window = nullptr,
             .num_slots = options.num_requests,
             .num_layers = options.num_layers};
  AllocateRows();
}

void GdnLayers::AllocateRows() {
  const int64_t width = options_.shape.conv_width();
  factors_.raw = arrays_.Activations(
      Rows(options_) * options_.num_layers * width, "raw rows");
  states_.window = arrays_.Activations(
      static_cast<int64_t>(options_.num_requests) * options_.num_layers *
          options_.shape.conv_taps * width,
      "windows");
  batch_.max_pages = (kCommitted + options_.num_nodes) / kPageSize + 1;
  std::vector<int32_t> table(static_cast<size_t>(options_.num_requests) *
                             batch_.max_pages);
  std::iota(table.begin(), table.end(), 0);
  batch_.page_table = arrays_.Copy(table, "page table");
  pages_ = {.k = nullptr,
            .v = nullptr,
            .num_layers = kAttentionLayers,
            .num_pages = static_cast<int>(table.size()),
            .page_size = kPageSize};
  const int64_t pool = int64_t{kAttentionLayers} * pages_.num_pages *
                       kPageSize * kAttention.kv_width();
  pages_.k = arrays_.Activations(pool, "keys");
  pages_.v = arrays_.Activations(pool, "values");
}

absl::Status GdnLayers::Fill(CudaBackend& backend) {
  const GdnShape& s = options_.shape;
  const int64_t rows = Rows(options_) * options_.num_layers;
  const auto activations = [&](int64_t count) -> absl::StatusOr<Activation*> {
    BOLE_ASSIGN_OR_RETURN(
        DeviceMemory memory,
        RandomActivations(backend, count, /*deviation=*/1, random_.size()));
    random_.push_back(std::move(memory));
    return static_cast<Activation*>(random_.back().get());
  };
  BOLE_ASSIGN_OR_RETURN(q_, activations(rows * s.key_width()));
  BOLE_ASSIGN_OR_RETURN(factors_.k, activations(rows * s.key_width()));
  BOLE_ASSIGN_OR_RETURN(factors_.v, activations(rows * s.value_width()));
  BOLE_ASSIGN_OR_RETURN(
      DeviceMemory state,
      RandomFloats(backend, StateBytes(options_) / 4 * options_.num_layers,
                   /*deviation=*/0.1f, random_.size()));
  states_.state = static_cast<float*>(state.get());
  random_.push_back(std::move(state));
  return absl::OkStatus();
}

GdnCoreParams GdnLayers::Core(int layer, TreeSolver solver) const {
  const GdnShape& s = options_.shape;
  const int64_t first = Rows(options_) * layer;
  GdnFactors factors = factors_;
  if (solver != TreeSolver::kSerial) factors.node_states = nullptr;
  return {.batch = batch_,
          .shape = s,
          .states = states_,
          .layer = layer,
          .q = At(q_, first * s.key_width()),
          .q_scale = q_scale_,
          .factors = factors,
          .solver = solver,
          .out = At(out_, first * s.value_width())};
}

GdnCommitParams GdnLayers::Commit(bool from_node_states) const {
  GdnFactors factors = factors_;
  if (!from_node_states) factors.node_states = nullptr;
  return {.batch = batch_,
          .path = path_,
          .shape = options_.shape,
          .states = states_,
          .factors = factors,
          .first_layer = 0,
          .num_layers = options_.num_layers};
}

CompactKvParams GdnLayers::Compact() const {
  return {.batch = batch_,
          .path = path_,
          .shape = kAttention,
          .pages = pages_,
          .num_layers = kAttentionLayers};
}

}  // namespace bole::cuda
