#include "tests/bench/cuda/gdn_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "common/status_macros.h"
#include "tests/bench/cuda/draft_trees.h"
#include "tests/bench/cuda/gdn_layers.h"
#include "tests/bench/cuda/gpu_bench.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"

namespace bole::cuda {
namespace {

using ::bole::testing::HostBatch;
using ::bole::testing::Parents;

constexpr int64_t kElement = 2;
constexpr int64_t kFloat = 4;

int64_t Rows(const GdnRowsOptions& o) {
  return static_cast<int64_t>(o.num_requests) * o.num_rows;
}

int64_t StateFloats(const GdnRowsOptions& o) {
  return int64_t{1} * o.num_requests * o.shape.value_width() * o.shape.key_dim;
}

Activation* At(Activation* base, int64_t element) {
  return reinterpret_cast<Activation*>(reinterpret_cast<char*>(base) +
                                       element * kElement);
}

HostBatch MakeBatch(const GdnRowsOptions& o, std::mt19937& rng) {
  std::vector<Parents> trees;
  trees.reserve(o.num_requests);
  for (int b = 0; b < o.num_requests; ++b) {
    trees.push_back(o.chains ? testing::ChainParents(o.num_rows)
                             : DraftTree(rng, {.num_nodes = o.num_rows,
                                               .max_depth = 8,
                                               .top_k = 4}));
  }
  HostBatch batch = testing::PackTrees(trees, {.chains = o.chains});
  for (int b = 0; b < o.num_requests; ++b) batch.committed[b] = 1024;
  return batch;
}

}  // namespace

int64_t GdnRows::ConvBytes(const GdnRowsOptions& o) {
  const GdnShape& s = o.shape;
  // Raw rows in, raw rows and what becomes of them out; gates and scales.
  return Rows(o) * (kElement * (3 * s.conv_width() + 2 * s.value_heads) +
                    kFloat * 2 * (s.key_heads + s.value_heads));
}
int64_t GdnRows::GatedNormBytes(const GdnRowsOptions& o) {
  return Rows(o) * kElement * 3 * o.shape.value_width();
}
int64_t GdnRows::WindowBytes(const GdnRowsOptions& o) {
  return int64_t{1} * o.num_requests * kElement * 2 * o.shape.conv_taps *
         o.shape.conv_width();
}
int64_t GdnRows::CoreBytes(const GdnRowsOptions& o) {
  const GdnShape& s = o.shape;
  return 2 * kFloat * StateFloats(o) +
         Rows(o) * (kElement * 2 * (s.key_width() + s.value_width()) +
                    kFloat * 2 * (s.key_heads + s.value_heads));
}

absl::StatusOr<std::unique_ptr<GdnRows>> GdnRows::Create(
    CudaBackend& backend, const GdnRowsOptions& options) {
  std::unique_ptr<GdnRows> rows(new GdnRows(backend, options));
  BOLE_RETURN_IF_ERROR(rows->arrays_.status());
  BOLE_RETURN_IF_ERROR(rows->Fill(backend));
  return rows;
}

GdnRows::GdnRows(CudaBackend& backend, const GdnRowsOptions& options)
    : options_(options), arrays_(backend) {
  std::mt19937 rng(1);
  const GdnShape& s = options.shape;
  const HostBatch batch = MakeBatch(options, rng);
  batch_ = CopyBatch(batch, arrays_);
  std::vector<int32_t> all(Rows(options));
  std::iota(all.begin(), all.end(), 0);
  path_ = {.first = batch_.first_row, .row = arrays_.Copy(all, "path")};

  const int64_t rows = Rows(options) * options.num_layers;
  factors_ = {.raw = arrays_.Activations(rows * s.conv_width(), "raw"),
              .k = arrays_.Activations(rows * s.key_width(), "k"),
              .v = arrays_.Activations(rows * s.value_width(), "v"),
              .k_scale = arrays_.Array<float>(rows * s.key_heads, "k_scale"),
              .beta = arrays_.Array<float>(rows * s.value_heads, "beta"),
              .log_decay = arrays_.Array<float>(rows * s.value_heads, "decay"),
              .layer_rows = static_cast<int>(Rows(options))};
  q_ = arrays_.Activations(rows * s.key_width(), "q");
  out_ = arrays_.Activations(rows * s.value_width(), "out");
  q_scale_ = arrays_.Array<float>(Rows(options) * s.key_heads, "q_scale");
  conv_weight_ = arrays_.Copy(
      testing::NormalVector(rng, int64_t{1} * s.conv_width() * s.conv_taps),
      "weights");
  std::vector<float> head = testing::NormalVector(rng, 128);
  for (float& x : head) x = -std::abs(x);
  head_weight_ = arrays_.Copy(head, "weights");
  states_ = {.state = nullptr,
             .window = nullptr,
             .num_slots = options.num_requests,
             .num_layers = options.num_layers};
}

// Keys, values and gates of every layer are what the front makes of random
// projections.
absl::Status GdnRows::Fill(CudaBackend& backend) {
  const GdnShape& s = options_.shape;
  const auto keep = [&](absl::StatusOr<DeviceMemory> memory) -> absl::Status {
    BOLE_RETURN_IF_ERROR(memory.status());
    random_.push_back(*std::move(memory));
    return absl::OkStatus();
  };
  const int64_t rows = Rows(options_) * options_.num_layers;
  BOLE_RETURN_IF_ERROR(
      keep(RandomActivations(backend, rows * s.projected_width(), 1, 1)));
  projected_ = static_cast<Activation*>(random_.back().get());
  BOLE_RETURN_IF_ERROR(keep(
      RandomActivations(backend,
                        int64_t{1} * options_.num_requests *
                            options_.num_layers * s.conv_taps * s.conv_width(),
                        1, 2)));
  states_.window = static_cast<Activation*>(random_.back().get());
  BOLE_RETURN_IF_ERROR(keep(RandomFloats(
      backend, StateFloats(options_) * options_.num_layers, 0.1f, 3)));
  states_.state = static_cast<float*>(random_.back().get());
  for (int layer = 0; layer < options_.num_layers; ++layer) {
    BOLE_RETURN_IF_ERROR(backend.GdnConv(Conv(layer)));
  }
  return absl::OkStatus();
}

GdnConvParams GdnRows::Conv(int layer) const {
  const GdnShape& s = options_.shape;
  const int64_t first = Rows(options_) * layer;
  return {.batch = batch_,
          .shape = s,
          .states = states_,
          .layer = layer,
          .projected = At(projected_, first * s.projected_width()),
          .conv_weight = conv_weight_,
          .negative_exp_a = head_weight_,
          .dt_bias = head_weight_,
          .q = At(q_, first * s.key_width()),
          .q_scale = q_scale_,
          .factors = factors_};
}

GdnCoreParams GdnRows::Core(int layer) const {
  const GdnShape& s = options_.shape;
  const int64_t first = Rows(options_) * layer;
  return {.batch = batch_,
          .shape = s,
          .states = states_,
          .layer = layer,
          .q = At(q_, first * s.key_width()),
          .q_scale = q_scale_,
          .factors = factors_,
          .solver = TreeSolver::kBlocks,
          .out = At(out_, first * s.value_width())};
}

GdnCommitParams GdnRows::Windows(int layer) const {
  return {.batch = batch_,
          .path = path_,
          .shape = options_.shape,
          .states = states_,
          .factors = factors_,
          .first_layer = layer,
          .num_layers = 1};
}

GdnGatedNormParams GdnRows::GatedNorm(int layer) const {
  const GdnShape& s = options_.shape;
  const int64_t first = Rows(options_) * layer;
  Activation* o = At(out_, first * s.value_width());
  return {.rows = batch_.rows,
          .shape = s,
          .epsilon = 1e-6f,
          .o = o,
          .projected = At(projected_, first * s.projected_width()),
          .weight = head_weight_,
          .out = o};
}

}  // namespace bole::cuda
