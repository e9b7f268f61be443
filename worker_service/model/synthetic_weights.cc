#include "worker_service/model/synthetic_weights.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/generated_element.h"

namespace bole {
namespace {

// The size of what a layer adds to the residual stream, whose elements are near
// 1.
constexpr double kGain = 0.05;
constexpr double kNormDeviation = 0.1;
constexpr double kConvDeviation = 0.5;
// How far all tokens but the successors together are below the successors, in
// nats.
constexpr double kMargin = 7.5;

// Ranges in which the recurrences of real models start their training.
constexpr double kMinDecayRate = 1;  // exp(A_log)
constexpr double kMaxDecayRate = 16;
constexpr double kMinTimeStep = 1e-3;  // softplus(dt_bias)
constexpr double kMaxTimeStep = 0.1;

// The numbers of code columns and of ranking columns in each half of an
// embedding (kernels/generate.h), in sixteenths of all columns.
constexpr int kCodeSixteenths = 6;
constexpr int kRankSixteenths = 2;
// The approximate mean square of the ranking that the drafter knows.
constexpr double kDraftRankSquare = 0.5;

MarkovCode MakeCode(const MarkovChain& chain, const ModelConfig& config) {
  const int sixteenth = config.hidden_size / 16;
  const int code_columns = kCodeSixteenths * sixteenth;
  const double logit = std::log(static_cast<double>(config.vocab_size)) +
                       kMargin + chain.mean_log_probability;
  MarkovCode code = chain.code;
  code.code_columns = code_columns;
  code.head_code = static_cast<float>(logit / code_columns);
  code.head_rank =
      static_cast<float>(chain.rank_scale / (kRankSixteenths * sixteenth));
  return code;
}

// The root mean square of a row of the embedding. All its elements have a mean
// square of 1, except the drafter's ranking, which has `draft_rank`.
double RootMeanSquare(double draft_rank) {
  const double sixteenths =
      2 * kCodeSixteenths + kRankSixteenths * (1 + draft_rank);
  return std::sqrt(sixteenths / 16);
}

// Makes one tensor after the other, each from its own random numbers. The first
// error sticks, so that the code of a layer reads as the list of its weights.
class Generator {
 public:
  Generator(const SyntheticModel& model, const ModelShard& shard,
            WeightStore& store, DeviceArrays& arrays)
      : model_(model),
        shard_(shard),
        config_(shard.whole),
        store_(store),
        arrays_(arrays),
        code_(MakeCode(model.chain, shard.whole)) {}

  absl::Status status() const {
    return status_.ok() ? arrays_.status() : status_;
  }
  size_t matrix_bytes() const { return matrix_bytes_; }

  // [V, H]
  const WeightMatrix* Embedding() {
    return Add(ChainMatrix(MatrixPattern::kEmbedding));
  }
  const WeightMatrix* Head() {
    MatrixGenerator head = ChainMatrix(MatrixPattern::kHead);
    head.part = PartOf({{config_.vocab_size, shard_.head}});
    return Add(head);
  }

  LayerWeights Layer(LayerKind kind) {
    LayerWeights weights{.input_norm = Norm(config_.hidden_size),
                         .post_attention_norm = Norm(config_.hidden_size),
                         .mixer = {},
                         .ffn = {}};
    if (kind == LayerKind::kLinearAttention) {
      weights.mixer = Gdn();
    } else {
      weights.mixer = Attention();
    }
    if (config_.moe) {
      weights.ffn = Experts(*config_.moe);
    } else {
      weights.ffn = Ffn(config_.intermediate_size, shard_.ffn);
    }
    return weights;
  }

  // The drafter passes the embedding on with its halves exchanged, so that the
  // head sees what the drafter believes.
  DrafterWeights Drafter() {
    const int width = config_.hidden_size;
    const int half = width / 2;
    const float deviation = Deviation(kGain, 2 * width);
    const double rms = RootMeanSquare(kDraftRankSquare);
    return {
        .embedding_norm = Constant(width, 1),
        .hidden_norm = Constant(width, 1),
        .projection = Add({.pattern = MatrixPattern::kSelection,
                           .rows = width,
                           .columns = 2 * width,
                           .seed = model_.seed,
                           .stream = ++stream_,
                           .num_blocks = 3,
                           .blocks = {{code_.code_columns, deviation, half, 1},
                                      {half, deviation, half, kDraftRankGain},
                                      {width, deviation, -half, 1}}}),
        .layer = Layer(LayerKind::kFullAttention),
        .norm = Constant(width, static_cast<float>(rms))};
  }

  const float* Constant(int size, float value) {
    return arrays_.Copy(std::vector<float>(size, value), "weights");
  }

 private:
  // The standard deviation of elements whose product with a vector of ones and
  // minus ones has the deviation `gain`.
  static float Deviation(double gain, int columns) {
    return static_cast<float>(gain / std::sqrt(columns));
  }

  const WeightMatrix* Add(const MatrixGenerator& generator) {
    if (!status_.ok()) return nullptr;
    absl::StatusOr<const WeightMatrix*> matrix =
        store_.GenerateMatrix(generator);
    if (!matrix.ok()) {
      status_ = matrix.status();
      return nullptr;
    }
    matrix_bytes_ += store_.MatrixBytes(**matrix);
    return *matrix;
  }

  MatrixGenerator ChainMatrix(MatrixPattern pattern) const {
    return {.pattern = pattern,
            .rows = config_.vocab_size,
            .columns = config_.hidden_size,
            .seed = model_.seed,
            .stream = 0,
            .code = code_};
  }

  // A tensor of `rows` rows, of which the rank has a part.
  struct CutTensor {
    int rows;
    const TensorCut& cut;
  };
  using CutTensors = std::initializer_list<CutTensor>;

  // The parts of tensors that are stacked in one matrix.
  static MatrixPart PartOf(CutTensors tensors) {
    MatrixPart part;
    int first = 0;
    for (const CutTensor& tensor : tensors) {
      for (const IndexRange& range : tensor.cut.rows) {
        BOLE_CHECK(part.num_ranges < kMaxRowRanges);
        part.ranges[part.num_ranges++] = {first + range.first, range.count};
      }
      part.first_column = tensor.cut.columns.first;
      part.columns = tensor.cut.columns.count;
      first += tensor.rows;
    }
    return part;
  }

  MatrixGenerator RandomMatrix(int rows, int columns, double gain) {
    return {.pattern = MatrixPattern::kRandom,
            .rows = rows,
            .columns = columns,
            .seed = model_.seed,
            .stream = ++stream_,
            .num_blocks = 1,
            .blocks = {{rows, Deviation(gain, columns), 0, 0}}};
  }
  // A matrix that is whole on every rank.
  const WeightMatrix* Matrix(int rows, int columns) {
    return Add(RandomMatrix(rows, columns, 1));
  }
  // A matrix [., columns] of the rank's parts of `tensors`.
  const WeightMatrix* Matrix(CutTensors tensors, int columns, double gain = 1) {
    int rows = 0;
    for (const CutTensor& tensor : tensors) rows += tensor.rows;
    MatrixGenerator generator = RandomMatrix(rows, columns, gain);
    generator.part = PartOf(tensors);
    return Add(generator);
  }

  std::vector<float> Random(int size, double deviation) {
    const MatrixGenerator generator{
        .pattern = MatrixPattern::kRandom,
        .rows = 1,
        .columns = size,
        .seed = model_.seed,
        .stream = ++stream_,
        .num_blocks = 1,
        .blocks = {{1, static_cast<float>(deviation), 0, 0}}};
    std::vector<float> values(size);
    for (int i = 0; i < size; ++i) {
      values[i] =
          Elements(generator, 0, i / kElementBlock).value[i % kElementBlock];
    }
    return values;
  }

  const float* Norm(int size) {
    std::vector<float> values = Random(size, kNormDeviation);
    for (float& value : values) value += 1;
    return arrays_.Copy(values, "weights");
  }

  // Random numbers from `low` to `high`, uniformly distributed: each normal
  // random number is mapped by the normal distribution function.
  std::vector<double> Between(int size, double low, double high) {
    std::vector<double> values;
    values.reserve(size);
    for (const float x : Random(size, 1)) {
      const double share = 0.5 * std::erfc(-x / std::sqrt(2.0));
      values.push_back(low + (high - low) * share);
    }
    return values;
  }

  // The rank's part of a tensor [rows, cut.columns.count].
  const float* Part(const std::vector<float>& whole, const TensorCut& cut) {
    std::vector<float> part;
    for (const IndexRange& range : cut.rows) {
      const auto first = whole.begin() + range.first * cut.columns.count;
      part.insert(part.end(), first, first + range.count * cut.columns.count);
    }
    return arrays_.Copy(part, "weights");
  }

  GdnWeights Gdn() {
    const GdnCuts& cut = shard_.gdn;
    const int hidden = config_.hidden_size;
    const int values = config_.value_dim();
    const int value_heads = config_.linear_num_value_heads;
    std::vector<float> negative_exp_a;
    for (const double rate :
         Between(value_heads, kMinDecayRate, kMaxDecayRate)) {
      negative_exp_a.push_back(static_cast<float>(-rate));
    }
    std::vector<float> dt_bias;
    for (const double log_step :
         Between(value_heads, std::log(kMinTimeStep), std::log(kMaxTimeStep))) {
      // softplus(dt_bias) is the time step.
      dt_bias.push_back(
          static_cast<float>(std::log(std::expm1(std::exp(log_step)))));
    }
    return {.projection = Matrix({{config_.conv_dim(), cut.in_proj_qkv},
                                  {values, cut.in_proj_z},
                                  {value_heads, cut.in_proj_b},
                                  {value_heads, cut.in_proj_a}},
                                 hidden),
            .conv = Part(Random(config_.conv_dim() * config_.linear_conv_kernel,
                                kConvDeviation),
                         cut.conv1d),
            .negative_exp_a = Part(negative_exp_a, cut.a_log),
            .dt_bias = Part(dt_bias, cut.dt_bias),
            .norm = Norm(config_.linear_value_head_dim),
            .output = Matrix({{hidden, cut.out_proj}}, values, kGain)};
  }

  AttentionWeights Attention() {
    const AttentionCuts& cut = shard_.attention;
    const int hidden = config_.hidden_size;
    return {
        .projection = Matrix({{2 * config_.query_dim(), cut.q_proj},
                              {config_.kv_dim(), cut.k_proj},
                              {config_.kv_dim(), cut.v_proj}},
                             hidden),
        .q_norm = Norm(config_.head_dim),
        .k_norm = Norm(config_.head_dim),
        .output = Matrix({{hidden, cut.o_proj}}, config_.query_dim(), kGain)};
  }

  DenseFfnWeights Ffn(int width, const FfnCuts& cut) {
    const int hidden = config_.hidden_size;
    return {.gate_up =
                Matrix({{width, cut.gate_proj}, {width, cut.up_proj}}, hidden),
            .down = Matrix({{hidden, cut.down_proj}}, width, kGain)};
  }

  MoeFfnWeights Experts(const MoeConfig& moe) {
    const DenseFfnWeights shared =
        Ffn(moe.shared_intermediate_size, shard_.shared_expert);
    MoeFfnWeights weights{
        .router = Matrix(moe.num_experts, config_.hidden_size),
        .gate_up = {},
        .down = {},
        .shared_gate = Matrix(1, config_.hidden_size),
        .shared_gate_up = shared.gate_up,
        .shared_down = shared.down};
    for (int e = 0; e < moe.num_experts; ++e) {
      const DenseFfnWeights expert = Ffn(moe.intermediate_size, shard_.ffn);
      weights.gate_up.push_back(expert.gate_up);
      weights.down.push_back(expert.down);
    }
    return weights;
  }

  const SyntheticModel& model_;
  const ModelShard& shard_;
  const ModelConfig& config_;  // The whole model.
  WeightStore& store_;
  DeviceArrays& arrays_;
  const MarkovCode code_;
  absl::Status status_;
  uint32_t stream_ = 0;  // The last random stream used; 0 is the chain's.
  size_t matrix_bytes_ = 0;
};

}  // namespace

absl::StatusOr<Weights> GenerateWeights(const SyntheticModel& model,
                                        const ModelShard& shard,
                                        WeightStore& store, Device& device) {
  const ModelConfig& config = shard.whole;
  if (config.hidden_size % 64 != 0 ||
      config.vocab_size < model.chain.options.num_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a chain of ", model.chain.options.num_tokens,
        " tokens and a hidden size of ", config.hidden_size, " do not fit ",
        config.vocab_size, " tokens and a multiple of 64"));
  }
  Weights weights(device);
  Generator generator(model, shard, store, weights.arrays);
  weights.embedding = generator.Embedding();
  weights.head = generator.Head();
  weights.head_rows = HeadRows(shard);
  // Undoes the final norm's division by the embedding's root mean square.
  weights.norm = generator.Constant(
      config.hidden_size,
      static_cast<float>(RootMeanSquare(kDraftRankSquare /
                                        (kDraftRankGain * kDraftRankGain))));
  weights.inverse_frequency = weights.arrays.Copy(
      InverseFrequencies(config.rope), "rotary frequencies");
  weights.layers.reserve(config.layer_kinds.size());
  for (const LayerKind kind : config.layer_kinds) {
    weights.layers.push_back(generator.Layer(kind));
  }
  if (config.num_mtp_layers > 0) weights.drafter = generator.Drafter();
  BOLE_RETURN_IF_ERROR(generator.status());
  weights.matrix_bytes = generator.matrix_bytes();
  return weights;
}

}  // namespace bole
