#include "worker_service/model/checkpoint_tensors.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/model/synthetic_tensors.h"
#include "worker_service/model/checkpoint.h"
#include "worker_service/model/model_config.h"

namespace bole {
namespace {

using Shape = std::vector<int64_t>;

// A small model with every kind of part: both layer kinds, full attention
// first, and sizes that differ from one another.
ModelConfig SmallConfig() {
  ModelConfig config;
  config.hidden_size = 6;
  config.vocab_size = 50;
  config.layer_kinds = {LayerKind::kFullAttention, LayerKind::kLinearAttention};
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 16;
  config.linear_num_key_heads = 3;
  config.linear_num_value_heads = 9;
  config.linear_key_head_dim = 5;
  config.linear_value_head_dim = 7;
  config.linear_conv_kernel = 3;
  config.intermediate_size = 11;
  config.num_mtp_layers = 1;
  return config;
}

ModelConfig SmallMoeConfig() {
  ModelConfig config = SmallConfig();
  config.intermediate_size = 0;
  config.moe = MoeConfig{.num_experts = 4,
                         .experts_per_token = 2,
                         .intermediate_size = 13,
                         .shared_intermediate_size = 17};
  return config;
}

std::string ErrorOf(const TensorMap& tensors, const ModelConfig& config) {
  const absl::Status status = ResolveTensors(tensors, config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// Element i of the tensor.
float At(const TensorView& tensor, size_t i) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  EXPECT_TRUE(ConvertToFloat(tensor, values).ok());
  return values.at(i);
}

TEST(CheckpointTensorsTest, ResolvesTheDemo) {
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open("models/demo");
  const absl::StatusOr<ModelConfig> config = LoadModelConfig("models/demo");
  ASSERT_TRUE(checkpoint.ok() && config.ok());

  const absl::StatusOr<CheckpointTensors> resolved =
      ResolveTensors(checkpoint->tensors(), *config);

  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->embedding.shape, (Shape{8192, 256}));
  EXPECT_FALSE(resolved->head.has_value());
  EXPECT_TRUE(resolved->drafter.has_value());
  ASSERT_EQ(resolved->layers.size(), 8u);
  const auto& gdn = std::get<GdnTensors>(resolved->layers[0].mixer);
  EXPECT_EQ(gdn.a_log.dtype, StoredDtype::kF32);
  EXPECT_EQ(gdn.dt_bias.dtype, StoredDtype::kBF16);
  EXPECT_EQ(gdn.a_log.name, "model.language_model.layers.0.linear_attn.A_log");
  const auto& attention = std::get<AttentionTensors>(resolved->layers[3].mixer);
  EXPECT_EQ(attention.q_proj.shape, (Shape{1024, 256}));
  const auto& ffn = std::get<FfnTensors>(resolved->layers[7].ffn);
  EXPECT_EQ(ffn.down_proj.shape, (Shape{256, 704}));
}

TEST(CheckpointTensorsTest, ResolvesTheGoldenCheckpoints) {
  struct Case {
    const char* directory;
    bool has_head;
  };
  for (const Case& c : {Case{"tests/golden/dense", true},
                        Case{"tests/golden/dense_flat_tied_bf16", false},
                        Case{"tests/golden/moe", true}}) {
    const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(c.directory);
    const absl::StatusOr<ModelConfig> config = LoadModelConfig(c.directory);
    ASSERT_TRUE(checkpoint.ok() && config.ok()) << c.directory;

    const absl::StatusOr<CheckpointTensors> resolved =
        ResolveTensors(checkpoint->tensors(), *config);

    ASSERT_TRUE(resolved.ok()) << c.directory << ": " << resolved.status();
    EXPECT_EQ(resolved->head.has_value(), c.has_head) << c.directory;
    EXPECT_TRUE(resolved->drafter.has_value()) << c.directory;
  }
}

TEST(CheckpointTensorsTest, ExpertsAreTheSameStackedOrNot) {
  const absl::StatusOr<Checkpoint> checkpoint =
      Checkpoint::Open("tests/golden/moe");
  const absl::StatusOr<ModelConfig> config =
      LoadModelConfig("tests/golden/moe");
  ASSERT_TRUE(checkpoint.ok() && config.ok());
  const std::string prefix = "model.language_model.layers.1.mlp.experts.";
  const TensorView gate_up = *checkpoint->Find(prefix + "gate_up_proj");
  const TensorView down = *checkpoint->Find(prefix + "down_proj");

  const absl::StatusOr<CheckpointTensors> resolved =
      ResolveTensors(checkpoint->tensors(), *config);

  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const auto& stacked = std::get<MoeTensors>(resolved->layers[1].ffn);
  ASSERT_EQ(stacked.experts.size(), 8u);
  // [E, 2 m, H] and [E, H, m] with m = 32, H = 64; expert 5, row 3, column 7.
  EXPECT_EQ(stacked.experts[5].gate_proj.shape, (Shape{32, 64}));
  EXPECT_EQ(stacked.experts[5].down_proj.shape, (Shape{64, 32}));
  EXPECT_EQ(At(stacked.experts[5].gate_proj, 3 * 64 + 7),
            At(gate_up, (5 * 64 + 3) * 64 + 7));
  EXPECT_EQ(At(stacked.experts[5].up_proj, 3 * 64 + 7),
            At(gate_up, (5 * 64 + 32 + 3) * 64 + 7));
  EXPECT_EQ(At(stacked.experts[5].down_proj, 3 * 32 + 7),
            At(down, (5 * 64 + 3) * 32 + 7));
  // The drafter's are one by one in this file.
  const auto& single = std::get<MoeTensors>(resolved->drafter->layer.ffn);
  ASSERT_EQ(single.experts.size(), 8u);
  EXPECT_EQ(single.experts[5].up_proj.name,
            "mtp.layers.0.mlp.experts.5.up_proj.weight");
}

TEST(CheckpointTensorsTest, EveryLayoutOfExpertsLoads) {
  for (const bool stacked : {false, true}) {
    for (const bool stacked_drafter : {false, true}) {
      const SyntheticTensors synthetic(
          SmallMoeConfig(), {.stacked_experts = stacked,
                             .stacked_drafter_experts = stacked_drafter});

      const absl::StatusOr<CheckpointTensors> resolved =
          ResolveTensors(synthetic.tensors(), SmallMoeConfig());

      ASSERT_TRUE(resolved.ok()) << resolved.status();
      for (const LayerTensors* layer :
           {&resolved->layers[0], &resolved->drafter->layer}) {
        const auto& moe = std::get<MoeTensors>(layer->ffn);
        ASSERT_EQ(moe.experts.size(), 4u);
        EXPECT_EQ(moe.experts[3].up_proj.shape, (Shape{13, 6}));
        EXPECT_EQ(moe.experts[3].down_proj.shape, (Shape{6, 13}));
        EXPECT_EQ(moe.shared_expert.up_proj.shape, (Shape{17, 6}));
      }
    }
  }
}

TEST(CheckpointTensorsTest, EitherPrefixLoads) {
  for (const char* prefix : {"model.", "model.language_model."}) {
    const SyntheticTensors synthetic(SmallConfig(), {.prefix = prefix});

    const absl::StatusOr<CheckpointTensors> resolved =
        ResolveTensors(synthetic.tensors(), SmallConfig());

    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_EQ(resolved->embedding.name,
              std::string(prefix) + "embed_tokens.weight");
    EXPECT_TRUE(
        std::holds_alternative<AttentionTensors>(resolved->layers[0].mixer));
    EXPECT_TRUE(std::holds_alternative<GdnTensors>(resolved->layers[1].mixer));
  }
}

TEST(CheckpointTensorsTest, WithoutDrafterTensorsThereIsNoDrafter) {
  const SyntheticTensors synthetic(SmallConfig(), {.has_drafter = false});

  const absl::StatusOr<CheckpointTensors> resolved =
      ResolveTensors(synthetic.tensors(), SmallConfig());

  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_FALSE(resolved->drafter.has_value());
}

TEST(CheckpointTensorsTest, DrafterTensorsCountWhateverTheConfigurationSays) {
  const SyntheticTensors synthetic(SmallConfig(), {});
  ModelConfig config = SmallConfig();
  config.num_mtp_layers = 0;

  const absl::StatusOr<CheckpointTensors> resolved =
      ResolveTensors(synthetic.tensors(), config);

  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_TRUE(resolved->drafter.has_value());
}

TEST(CheckpointTensorsTest, TheHeadIsUsedIfThereIsOneAndElseTheFlagMustTie) {
  ModelConfig tied = SmallConfig();
  tied.tie_word_embeddings = true;
  const SyntheticTensors with_head(SmallConfig(), {});
  const SyntheticTensors without_head(tied, {});

  const auto used = ResolveTensors(with_head.tensors(), tied);
  const auto absent = ResolveTensors(without_head.tensors(), tied);

  ASSERT_TRUE(used.ok() && absent.ok());
  EXPECT_TRUE(used->head.has_value());
  EXPECT_FALSE(absent->head.has_value());
  EXPECT_EQ(ErrorOf(without_head.tensors(), SmallConfig()),
            "lm_head.weight: missing, expected shape [50, 6], or "
            "tie_word_embeddings in config.json");
}

TEST(CheckpointTensorsTest, TheVisionTowerIsSkippedAndNothingElse) {
  const SyntheticTensors synthetic(SmallConfig(), {});
  TensorMap tensors = synthetic.tensors();
  const TensorView any = tensors.begin()->second;
  tensors.emplace("model.visual.blocks.0.attn.qkv.weight", any);
  EXPECT_TRUE(ResolveTensors(tensors, SmallConfig()).ok());

  tensors.emplace("model.visualiser", any);
  EXPECT_EQ(ErrorOf(tensors, SmallConfig()),
            "\"model.visualiser\": unknown tensor, the first of 1");
  tensors.emplace("model.layers.0.mlp.up_proj.bias", any);
  EXPECT_EQ(ErrorOf(tensors, SmallConfig()),
            "\"model.layers.0.mlp.up_proj.bias\": unknown tensor, the first of "
            "2");
}

TEST(CheckpointTensorsTest, BothSpellingsOfOneLayersExpertsAreTooMany) {
  const SyntheticTensors stacked(SmallMoeConfig(), {});
  const SyntheticTensors single(SmallMoeConfig(), {.stacked_experts = false});
  TensorMap tensors = stacked.tensors();
  tensors.insert(single.tensors().begin(), single.tensors().end());

  // Two layers of four experts of three matrices.
  EXPECT_EQ(ErrorOf(tensors, SmallMoeConfig()),
            "\"model.language_model.layers.0.mlp.experts.0.down_proj.weight\": "
            "unknown tensor, the first of 24");
}

TEST(CheckpointTensorsTest, AnErrorNamesTensorFoundAndExpected) {
  const SyntheticTensors synthetic(SmallConfig(), {.prefix = "model."});
  const std::string name = "model.layers.0.mlp.up_proj.weight";

  TensorMap missing = synthetic.tensors();
  missing.erase(name);
  TensorMap transposed = synthetic.tensors();
  transposed[name].shape = {6, 11};
  TensorMap quantised = synthetic.tensors();
  quantised[name].dtype = StoredDtype::kF8E4M3;

  EXPECT_EQ(ErrorOf(missing, SmallConfig()),
            name + ": missing, expected shape [11, 6]");
  EXPECT_EQ(ErrorOf(transposed, SmallConfig()),
            name + ": shape [6, 11], expected [11, 6]");
  EXPECT_EQ(ErrorOf(quantised, SmallConfig()),
            name + ": F8_E4M3, expected F32, BF16 or F16");
}

// Every tensor's name, shape and type matter: whatever one of them loses or
// changes, the error names it.
void ExpectEveryTensorIsChecked(const ModelConfig& config,
                                const SyntheticLayout& layout) {
  const SyntheticTensors synthetic(config, layout);
  ASSERT_TRUE(ResolveTensors(synthetic.tensors(), config).ok());

  for (const auto& [name, tensor] : synthetic.tensors()) {
    TensorMap missing = synthetic.tensors();
    missing.erase(name);
    EXPECT_FALSE(ResolveTensors(missing, config).ok()) << name;

    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      TensorMap larger = synthetic.tensors();
      ++larger[name].shape[d];
      EXPECT_EQ(ErrorOf(larger, config).find(name + ": shape ["), 0u) << name;
    }

    TensorMap flat = synthetic.tensors();
    flat[name].shape = {};
    EXPECT_EQ(ErrorOf(flat, config).find(name + ": shape []"), 0u) << name;

    TensorMap integers = synthetic.tensors();
    integers[name].dtype = StoredDtype::kI32;
    EXPECT_EQ(ErrorOf(integers, config).find(name + ": I32"), 0u) << name;
  }
}

TEST(CheckpointTensorsTest, EveryTensorIsChecked) {
  ExpectEveryTensorIsChecked(SmallConfig(), {});
  ExpectEveryTensorIsChecked(SmallMoeConfig(), {});
  ExpectEveryTensorIsChecked(
      SmallMoeConfig(),
      {.stacked_experts = false, .stacked_drafter_experts = false});
}

// Whole-file counts as published; the vision tower's are subtracted.
TEST(CheckpointTensorsTest, CountsAreThePublishedOnes) {
  struct Case {
    const char* size;
    bool stacked_drafter_experts;
    bool has_drafter;
    size_t num_tensors;
    size_t num_vision;
  };
  for (const Case& c :
       {Case{"0.8B", true, true, 488, 153}, Case{"2B", true, true, 632, 297},
        Case{"4B", true, true, 738, 297}, Case{"9B", true, true, 775, 333},
        Case{"9B", true, false, 760, 333}, Case{"27B", true, true, 1199, 333},
        Case{"35B-A3B", false, true, 1811, 333},
        Case{"35B-A3B", true, true, 1045, 333}}) {
    const ModelConfig config = PublishedConfig(c.size);
    const SyntheticTensors synthetic(
        config, {.stacked_drafter_experts = c.stacked_drafter_experts,
                 .has_drafter = c.has_drafter});

    EXPECT_EQ(synthetic.tensors().size() + c.num_vision, c.num_tensors)
        << c.size;
    const absl::Status status =
        ResolveTensors(synthetic.tensors(), config).status();
    EXPECT_TRUE(status.ok()) << c.size << ": " << status;
  }
}

// Elements of the language model without the drafter, in billions, rounded to
// three places.
TEST(CheckpointTensorsTest, ParametersAreThePublishedOnes) {
  struct Case {
    const char* size;
    double billions;
  };
  for (const Case& c :
       {Case{"0.8B", 0.752}, Case{"2B", 1.882}, Case{"4B", 4.206},
        Case{"9B", 8.954}, Case{"27B", 26.896}, Case{"35B-A3B", 34.661},
        Case{"122B-A10B", 122.112}, Case{"397B-A17B", 396.346}}) {
    const ModelConfig config = PublishedConfig(c.size);
    const SyntheticTensors synthetic(config, {});

    ASSERT_TRUE(ResolveTensors(synthetic.tensors(), config).ok()) << c.size;
    const double count = static_cast<double>(synthetic.NumElements("") -
                                             synthetic.NumElements("mtp."));
    EXPECT_NEAR(count / 1e9, c.billions, 0.0005) << c.size;
  }
}

}  // namespace
}  // namespace bole
