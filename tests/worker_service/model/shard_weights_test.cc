// The weights of all ranks together are those of one rank, byte for byte, of a
// checkpoint and of a synthetic model. Who holds what is written down here once
// more, and not taken from ModelShard.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/rank.h"
#include "kernels/reference/packed_matrix.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/model/synthetic_tensors.h"
#include "worker_service/model/checkpoint_tensors.h"
#include "worker_service/model/markov_chain.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/model_shard.h"
#include "worker_service/model/synthetic_weights.h"
#include "worker_service/model/tensor_view.h"
#include "worker_service/model/weights.h"

namespace bole {
namespace {

constexpr int kHidden = 64;        // H
constexpr int kVocabulary = 1300;  // V: three groups, the last one short.

// 16 ranks can hold it. Its sizes differ from one another, three value heads
// read a key head, and eight query heads a KV head.
ModelConfig DenseConfig() {
  ModelConfig config;
  config.hidden_size = kHidden;
  config.vocab_size = kVocabulary;
  config.max_position_embeddings = 256;
  config.rms_norm_eps = 1e-6f;
  config.layer_kinds = {LayerKind::kLinearAttention, LayerKind::kFullAttention};
  config.num_attention_heads = 32;
  config.num_key_value_heads = 4;
  config.head_dim = 8;
  config.rope = {.rotary_dim = 4, .theta = 1e7};
  config.linear_num_key_heads = 16;
  config.linear_num_value_heads = 48;
  config.linear_key_head_dim = 4;
  config.linear_value_head_dim = 12;
  config.linear_conv_kernel = 4;
  config.intermediate_size = 384;
  config.num_mtp_layers = 1;
  return config;
}

ModelConfig MoeModelConfig() {
  ModelConfig config = DenseConfig();
  config.intermediate_size = 0;
  config.moe = MoeConfig{.num_experts = 3,
                         .experts_per_token = 2,
                         .intermediate_size = 128,
                         .shared_intermediate_size = 256};
  return config;
}

// Weights that were read back. A vector is a column.
struct Values {
  int rows;
  int columns;
  std::vector<float> element;  // [rows, columns]
};
using NamedValues = std::map<std::string, Values>;

class Reader {
 public:
  explicit Reader(const ModelConfig& config) : config_(config) {}

  NamedValues Read(const Weights& weights) {
    Add("embedding", weights.embedding);
    Add("head", weights.head);
    Add("norm", weights.norm, kHidden);
    int number = 0;
    for (const LayerWeights& layer : weights.layers) {
      AddLayer("layers." + std::to_string(number++) + ".", layer);
    }
    AddLayer("drafter.", weights.drafter->layer);
    Add("drafter.embedding_norm", weights.drafter->embedding_norm, kHidden);
    Add("drafter.hidden_norm", weights.drafter->hidden_norm, kHidden);
    Add("drafter.norm", weights.drafter->norm, kHidden);
    Add("drafter.fc", weights.drafter->projection);
    return std::move(values_);
  }

 private:
  void Add(const std::string& name, const WeightMatrix* matrix) {
    const auto& packed = static_cast<const reference::PackedMatrix&>(*matrix);
    Values values{packed.rows, packed.columns, {}};
    values.element.resize(static_cast<size_t>(packed.rows) * packed.columns);
    for (int r = 0; r < packed.rows; ++r) {
      packed.CopyRow(
          r, values.element.data() + static_cast<size_t>(r) * packed.columns);
    }
    values_.emplace(name, std::move(values));
  }
  void Add(const std::string& name, const float* vector, int rows,
           int columns = 1) {
    values_.emplace(
        name,
        Values{rows, columns, {vector, vector + int64_t{rows} * columns}});
  }
  void AddMixer(const std::string& prefix, const GdnWeights& w) {
    Add(prefix + "gdn.projection", w.projection);
    Add(prefix + "gdn.conv", w.conv, config_.conv_dim(),
        config_.linear_conv_kernel);
    Add(prefix + "gdn.decay", w.negative_exp_a, config_.linear_num_value_heads);
    Add(prefix + "gdn.dt_bias", w.dt_bias, config_.linear_num_value_heads);
    Add(prefix + "gdn.norm", w.norm, config_.linear_value_head_dim);
    Add(prefix + "gdn.output", w.output);
  }
  void AddMixer(const std::string& prefix, const AttentionWeights& w) {
    Add(prefix + "attention.projection", w.projection);
    Add(prefix + "attention.q_norm", w.q_norm, config_.head_dim);
    Add(prefix + "attention.k_norm", w.k_norm, config_.head_dim);
    Add(prefix + "attention.output", w.output);
  }
  void AddFfn(const std::string& prefix, const DenseFfnWeights& w) {
    Add(prefix + "ffn.gate_up", w.gate_up);
    Add(prefix + "ffn.down", w.down);
  }
  void AddFfn(const std::string& prefix, const MoeFfnWeights& w) {
    Add(prefix + "router", w.router);
    Add(prefix + "shared_gate", w.shared_gate);
    Add(prefix + "shared.gate_up", w.shared_gate_up);
    Add(prefix + "shared.down", w.shared_down);
    for (size_t e = 0; e < w.gate_up.size(); ++e) {
      const std::string expert = prefix + "experts." + std::to_string(e) + ".";
      Add(expert + "ffn.gate_up", w.gate_up[e]);
      Add(expert + "ffn.down", w.down[e]);
    }
  }
  void AddLayer(const std::string& prefix, const LayerWeights& layer) {
    Add(prefix + "input_norm", layer.input_norm, kHidden);
    Add(prefix + "post_norm", layer.post_attention_norm, kHidden);
    std::visit([&](const auto& mixer) { AddMixer(prefix, mixer); },
               layer.mixer);
    std::visit([&](const auto& ffn) { AddFfn(prefix, ffn); }, layer.ffn);
  }

  const ModelConfig& config_;
  NamedValues values_;
};

// So many rows or columns of the whole, in equal parts: rank r of n has part
// r * parts / n.
struct Share {
  int size;
  int parts;
};
struct Layout {
  std::vector<Share> rows;  // One below the other.
  Share columns;
};

// By the end of a name. What is not here is whole on every rank.
std::vector<std::pair<std::string, Layout>> Layouts(const ModelConfig& c,
                                                    int n) {
  const int keys = c.linear_num_key_heads * c.linear_key_head_dim;
  const int heads = c.linear_num_value_heads;
  const int values = heads * c.linear_value_head_dim;
  const int queries = c.num_attention_heads * c.head_dim;
  const Share kv = {c.num_key_value_heads * c.head_dim,
                    std::min(n, c.num_key_value_heads)};
  const int width = c.moe ? c.moe->intermediate_size : c.intermediate_size;
  const int shared = c.moe ? c.moe->shared_intermediate_size : 0;
  const Share hidden = {kHidden, 1};
  return {
      {"gdn.projection",
       {{{keys, n},
         {keys, n},
         {values, n},
         {values, n},
         {heads, n},
         {heads, n}},
        hidden}},
      {"gdn.conv",
       {{{keys, n}, {keys, n}, {values, n}}, {c.linear_conv_kernel, 1}}},
      {"gdn.decay", {{{heads, n}}, {1, 1}}},
      {"gdn.dt_bias", {{{heads, n}}, {1, 1}}},
      {"gdn.output", {{hidden}, {values, n}}},
      {"attention.projection", {{{2 * queries, n}, kv, kv}, hidden}},
      {"attention.output", {{hidden}, {queries, n}}},
      {"ffn.gate_up", {{{width, n}, {width, n}}, hidden}},
      {"ffn.down", {{hidden}, {width, n}}},
      {"shared.gate_up", {{{shared, n}, {shared, n}}, hidden}},
      {"shared.down", {{hidden}, {shared, n}}},
  };
}

Layout LayoutOf(const std::string& name, const Values& whole,
                const ModelConfig& config, int n) {
  for (const auto& [end, layout] : Layouts(config, n)) {
    if (name.ends_with(end)) return layout;
  }
  return {{{whole.rows, 1}}, {whole.columns, 1}};
}

// Whether the rows of `part` are these rows of the whole, at the same columns.
bool HasRows(const Values& part, const std::vector<int>& rows, int first_column,
             const Values& whole) {
  if (part.rows != static_cast<int>(rows.size())) return false;
  for (int i = 0; i < part.rows; ++i) {
    const float* got = part.element.data() + int64_t{i} * part.columns;
    const float* want = whole.element.data() +
                        int64_t{rows[static_cast<size_t>(i)]} * whole.columns +
                        first_column;
    if (std::memcmp(got, want, part.columns * sizeof(float)) != 0) return false;
  }
  return true;
}

void ExpectPart(const Values& part, const Layout& layout, int rank, int n,
                const Values& whole) {
  std::vector<int> rows;
  int first = 0;
  for (const Share& share : layout.rows) {
    const int count = share.size / share.parts;
    for (int i = 0; i < count; ++i) {
      rows.push_back(first + rank * share.parts / n * count + i);
    }
    first += share.size;
  }
  ASSERT_EQ(first, whole.rows);
  ASSERT_EQ(layout.columns.size, whole.columns);
  const int columns = layout.columns.size / layout.columns.parts;
  EXPECT_EQ(part.columns, columns);
  const int first_column = rank * layout.columns.parts / n * columns;
  EXPECT_TRUE(HasRows(part, rows, first_column, whole));
}

// The tokens of each rank's head, for kVocabulary.
std::vector<std::pair<int, int>> HeadParts(int n) {
  std::vector<std::pair<int, int>> parts = {
      {0, 512}, {512, 1024}, {1024, 1300}};
  if (n == 2) parts = {{0, 1024}, {1024, 1300}};
  parts.resize(static_cast<size_t>(n), {1300, 1300});
  return parts;
}

void ExpectHead(const Values& part, int rank, int n, const Values& whole) {
  const auto [first, end] = HeadParts(n)[static_cast<size_t>(rank)];
  std::vector<int> rows;
  for (int token = first; token < end; ++token) rows.push_back(token);
  EXPECT_TRUE(HasRows(part, rows, 0, whole));
}

void ExpectRankHasItsPart(const NamedValues& part, const ModelConfig& config,
                          const Rank& rank, const NamedValues& whole) {
  ASSERT_EQ(part.size(), whole.size());
  for (const auto& [name, values] : part) {
    SCOPED_TRACE(name + ", rank " + std::to_string(rank.index) + " of " +
                 std::to_string(rank.count));
    const Values& all = whole.at(name);
    if (name == "head") {
      ExpectHead(values, rank.index, rank.count, all);
    } else {
      ExpectPart(values, LayoutOf(name, all, config, rank.count), rank.index,
                 rank.count, all);
    }
  }
}

// `load`: the weights of a rank. All that it has must be where it belongs.
template <typename Load>
void ExpectRanksHaveTheWhole(const ModelConfig& config, const Load& load) {
  const auto read = [&](const Rank& rank) {
    ReferenceBackend backend(/*num_threads=*/1);
    const absl::StatusOr<ModelShard> shard = ShardOf(config, rank);
    BOLE_CHECK(shard.ok());
    const absl::StatusOr<Weights> weights = load(*shard, backend);
    BOLE_CHECK(weights.ok());
    return Reader(shard->config).Read(*weights);
  };
  const NamedValues whole = read({0, 1});
  for (const int n : {2, 4, 8, 16}) {
    for (int rank = 0; rank < n; ++rank) {
      ExpectRankHasItsPart(read({rank, n}), config, {rank, n}, whole);
    }
  }
}

// Names and shapes of a checkpoint, with bytes of their own.
class FilledTensors {
 public:
  explicit FilledTensors(const ModelConfig& config,
                         const SyntheticLayout& layout) {
    const SyntheticTensors shapes(config, layout);
    tensors_ = shapes.tensors();
    std::mt19937 rng(7);
    for (auto& [name, tensor] : tensors_) {
      // bfloat16 between 2^-16 and 2^16, of both signs.
      std::vector<uint16_t>& data = data_[name];
      data.resize(static_cast<size_t>(tensor.num_elements()));
      for (uint16_t& bits : data) {
        bits = static_cast<uint16_t>((rng() & 0x8000) | (111 << 7) |
                                     (rng() % (32 << 7)));
      }
      tensor.data = std::as_bytes(std::span(data));
    }
  }

  const TensorMap& tensors() const { return tensors_; }

 private:
  std::map<std::string, std::vector<uint16_t>> data_;
  TensorMap tensors_;
};

void ExpectCheckpointIsCut(const ModelConfig& config,
                           const SyntheticLayout& layout = {}) {
  const FilledTensors filled(config, layout);
  const absl::StatusOr<CheckpointTensors> tensors =
      ResolveTensors(filled.tensors(), config);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ExpectRanksHaveTheWhole(
      config, [&](const ModelShard& shard, Backend& backend) {
        return LoadWeights(*tensors, shard, backend, backend);
      });
}

TEST(ShardWeightsTest, ACheckpointIsCut) {
  ExpectCheckpointIsCut(DenseConfig());
}

TEST(ShardWeightsTest, ATiedEmbeddingIsCopiedAndCutAsAHead) {
  ModelConfig config = DenseConfig();
  config.tie_word_embeddings = true;
  ExpectCheckpointIsCut(config);
}

TEST(ShardWeightsTest, ExpertsAreCutHoweverAFileHasThem) {
  ExpectCheckpointIsCut(MoeModelConfig());
  ExpectCheckpointIsCut(MoeModelConfig(), {.stacked_experts = false,
                                           .stacked_drafter_experts = false});
}

TEST(ShardWeightsTest, ASyntheticShardIsASliceOfTheWhole) {
  for (const ModelConfig& config : {DenseConfig(), MoeModelConfig()}) {
    const SyntheticModel model{
        .chain = MakeMarkovChain({.num_tokens = 1280, .seed = 3}), .seed = 3};
    ExpectRanksHaveTheWhole(
        config, [&](const ModelShard& shard, Backend& backend) {
          return GenerateWeights(model, shard, backend, backend);
        });
  }
}

}  // namespace
}  // namespace bole
