#include "worker_service/model/model_config.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using nlohmann::json;

constexpr LayerKind kGdn = LayerKind::kLinearAttention;
constexpr LayerKind kFull = LayerKind::kFullAttention;

// A flat configuration with no more than it needs.
json Minimal() {
  return {{"model_type", "qwen3_5_text"},
          {"hidden_size", 64},
          {"vocab_size", 512},
          {"max_position_embeddings", 4096},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 96}};
}

json With(json config, const char* key, json value) {
  config[key] = std::move(value);
  return config;
}

json Without(json config, const char* key) {
  config.erase(key);
  return config;
}

json Wrapped(const json& text) {
  return {{"model_type", "qwen3_5"},
          {"vision_config", {{"depth", 27}}},
          {"text_config", text}};
}

ModelConfig Parsed(const json& config) {
  const absl::StatusOr<ModelConfig> parsed = ParseModelConfig(config.dump());
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : ModelConfig{};
}

std::string ErrorOfText(std::string_view text) {
  const absl::Status status = ParseModelConfig(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

std::string ErrorOf(const json& config) { return ErrorOfText(config.dump()); }

ModelConfig Loaded(const std::string& directory) {
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(directory);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ModelConfig{};
}

TEST(ModelConfigTest, ReadsTheDemoWrapper) {
  const ModelConfig config = Loaded("models/demo");

  EXPECT_EQ(config.hidden_size, 256);
  EXPECT_EQ(config.vocab_size, 8192);
  EXPECT_EQ(config.max_position_embeddings, 32768);
  EXPECT_EQ(config.max_context(), 32768);
  EXPECT_EQ(config.rms_norm_eps, 1e-6f);
  EXPECT_EQ(config.layer_kinds,
            (std::vector<LayerKind>{kGdn, kGdn, kGdn, kFull, kGdn, kGdn, kGdn,
                                    kFull}));
  EXPECT_EQ(config.num_layers(), 8);
  EXPECT_EQ(config.num_linear_layers(), 6);
  EXPECT_EQ(config.num_attention_layers(), 2);
  EXPECT_EQ(config.num_attention_heads, 2);
  EXPECT_EQ(config.num_key_value_heads, 1);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.query_dim(), 512);
  EXPECT_EQ(config.kv_dim(), 256);
  EXPECT_EQ(config.rope, (RopeConfig{.rotary_dim = 64, .theta = 1e6}));
  EXPECT_EQ(config.key_dim(), 256);
  EXPECT_EQ(config.value_dim(), 512);
  EXPECT_EQ(config.conv_dim(), 1024);
  EXPECT_EQ(config.linear_conv_kernel, 4);
  EXPECT_EQ(config.intermediate_size, 704);
  EXPECT_FALSE(config.moe.has_value());
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.eos_token_ids, (std::vector<int>{8187}));
  EXPECT_EQ(config.num_mtp_layers, 1);
}

TEST(ModelConfigTest, ReadsTheGoldenCheckpoints) {
  EXPECT_FALSE(Loaded("tests/golden/dense").tie_word_embeddings);

  const ModelConfig flat = Loaded("tests/golden/dense_flat_tied_bf16");
  EXPECT_EQ(flat.hidden_size, 96);
  EXPECT_EQ(flat.linear_num_value_heads, 6);
  EXPECT_TRUE(flat.tie_word_embeddings);
  EXPECT_TRUE(flat.eos_token_ids.empty());

  const ModelConfig moe = Loaded("tests/golden/moe");
  EXPECT_EQ(moe.intermediate_size, 0);
  EXPECT_EQ(moe.moe, (MoeConfig{.num_experts = 8,
                                .experts_per_token = 3,
                                .intermediate_size = 32,
                                .shared_intermediate_size = 48}));
}

TEST(ModelConfigTest, MissingFieldsTakeThePublishedDefaults) {
  const ModelConfig config = Parsed(Minimal());

  EXPECT_EQ(config.layer_kinds,
            (std::vector<LayerKind>{kGdn, kGdn, kGdn, kFull}));
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.linear_num_key_heads, 16);
  EXPECT_EQ(config.linear_num_value_heads, 32);
  EXPECT_EQ(config.linear_key_head_dim, 128);
  EXPECT_EQ(config.linear_value_head_dim, 128);
  EXPECT_EQ(config.linear_conv_kernel, 4);
  EXPECT_EQ(config.rms_norm_eps, 1e-6f);
  EXPECT_EQ(config.rope, (RopeConfig{.rotary_dim = 64, .theta = 1e4}));
  EXPECT_EQ(config.num_mtp_layers, 1);
  EXPECT_FALSE(config.tie_word_embeddings);
}

TEST(ModelConfigTest, WrapperAndFlatFileMeanTheSame) {
  EXPECT_EQ(Parsed(Wrapped(Minimal())), Parsed(Minimal()));
  EXPECT_EQ(Parsed(With(Minimal(), "text_config", nullptr)), Parsed(Minimal()));
}

TEST(ModelConfigTest, EitherTieFlagCounts) {
  const json tied = With(Minimal(), "tie_word_embeddings", true);
  const json untied = With(Minimal(), "tie_word_embeddings", false);

  EXPECT_TRUE(Parsed(tied).tie_word_embeddings);
  EXPECT_TRUE(Parsed(Wrapped(tied)).tie_word_embeddings);
  EXPECT_TRUE(Parsed(With(Wrapped(untied), "tie_word_embeddings", true))
                  .tie_word_embeddings);
  EXPECT_FALSE(Parsed(Wrapped(untied)).tie_word_embeddings);
}

TEST(ModelConfigTest, StopIdsComeFromTheTextConfigAndTheOuterOne) {
  const json inner = With(Minimal(), "eos_token_id", json{7, 3, 7});

  EXPECT_EQ(Parsed(With(Wrapped(inner), "eos_token_id", 5)).eos_token_ids,
            (std::vector<int>{3, 5, 7}));
  EXPECT_EQ(Parsed(With(Wrapped(Minimal()), "eos_token_id", 5)).eos_token_ids,
            (std::vector<int>{5}));
  EXPECT_EQ(ErrorOf(With(Minimal(), "eos_token_id", 512)),
            "eos_token_id: 512, expected an integer in [0, 511]");
}

TEST(ModelConfigTest, AFullAttentionLayerMayComeFirst) {
  const json config =
      With(With(Minimal(), "num_hidden_layers", 2), "layer_types",
           json{"full_attention", "linear_attention"});

  EXPECT_EQ(Parsed(config).layer_kinds, (std::vector<LayerKind>{kFull, kGdn}));
}

TEST(ModelConfigTest, TheIntervalPlacesFullAttention) {
  EXPECT_EQ(Parsed(With(Minimal(), "full_attention_interval", 2)).layer_kinds,
            (std::vector<LayerKind>{kGdn, kFull, kGdn, kFull}));
  EXPECT_EQ(Parsed(With(Minimal(), "full_attention_interval", 9)).layer_kinds,
            std::vector<LayerKind>(4, kGdn));
}

TEST(ModelConfigTest, YarnReachesPastTheOriginalContext) {
  json config = Minimal();
  config["rope_parameters"] = {{"rope_type", "yarn"},
                               {"factor", 4.0},
                               {"rope_theta", 1e7},
                               {"original_max_position_embeddings", 4096}};

  EXPECT_EQ(Parsed(config).max_context(), 16384);
  EXPECT_EQ(
      Parsed(With(config, "max_position_embeddings", 20000)).max_context(),
      20000);
}

TEST(ModelConfigTest, ArchitecturesStandInForAMissingModelType) {
  const json unnamed = Without(Minimal(), "model_type");

  EXPECT_EQ(Parsed(With(unnamed, "architectures", json{"Qwen3_5ForCausalLM"})),
            Parsed(Minimal()));
  EXPECT_EQ(ErrorOf(unnamed), "model_type: missing, and so is architectures");
}

TEST(ModelConfigTest, OtherModelsAreRefused) {
  EXPECT_EQ(ErrorOf(With(Minimal(), "model_type", "llama")),
            "model_type: \"llama\", expected \"qwen3_5\" or \"qwen3_5_moe\" or "
            "\"qwen3_5_text\" or \"qwen3_5_moe_text\"");
  EXPECT_EQ(ErrorOf(With(Wrapped(Minimal()), "model_type", "qwen3_next"))
                .substr(0, 24),
            "model_type: \"qwen3_next\"");
  EXPECT_EQ(ErrorOf(Wrapped(With(Minimal(), "model_type", "qwen4_exp")))
                .substr(0, 23),
            "text_config.model_type:");
  EXPECT_EQ(ErrorOf(With(Minimal(), "architectures", json{"LlamaForCausalLM"}))
                .substr(0, 34),
            "architectures: \"LlamaForCausalLM\",");
}

TEST(ModelConfigTest, UnsupportedVariantsAreRefused) {
  const auto error = [](const char* key, json value) {
    return ErrorOf(With(Minimal(), key, std::move(value)));
  };

  EXPECT_EQ(error("hidden_act", "gelu"),
            "hidden_act: \"gelu\", expected \"silu\"");
  EXPECT_EQ(error("output_gate_type", "sigmoid"),
            "output_gate_type: \"sigmoid\", expected \"swish\" or \"silu\"");
  EXPECT_EQ(error("attn_output_gate", false),
            "attn_output_gate: false, expected true");
  EXPECT_EQ(error("attention_bias", true),
            "attention_bias: true, expected false");
  EXPECT_EQ(error("mtp_use_dedicated_embeddings", true),
            "mtp_use_dedicated_embeddings: true, expected false");
  EXPECT_EQ(error("norm_topk_prob", false),
            "norm_topk_prob: false, expected true");
  EXPECT_EQ(error("mtp_num_hidden_layers", 2),
            "mtp_num_hidden_layers: 2, expected an integer in [0, 1]");
  EXPECT_EQ(error("quantization_config", {{"quant_method", "fp8"}}),
            "quantization_config: quantised checkpoints are not supported");
  EXPECT_EQ(error("mlp_only_layers", {1}),
            "mlp_only_layers: expected an empty list");
  EXPECT_EQ(error("decoder_sparse_step", 2),
            "decoder_sparse_step: 2, expected an integer in [1, 1]");
  EXPECT_EQ(error("layer_types", {"sliding_attention"}),
            "layer_types: \"sliding_attention\", expected \"linear_attention\" "
            "or \"full_attention\"");
}

TEST(ModelConfigTest, WhatIsSupportedIsAccepted) {
  json config = Minimal();
  config.update({{"hidden_act", "silu"},
                 {"output_gate_type", "swish"},
                 {"attn_output_gate", true},
                 {"attention_bias", false},
                 {"mtp_use_dedicated_embeddings", false},
                 {"mlp_only_layers", json::array()},
                 {"quantization_config", nullptr},
                 {"pad_token_id", nullptr},
                 {"mamba_ssm_dtype", "float32"}});

  EXPECT_EQ(Parsed(config), Parsed(Minimal()));
}

TEST(ModelConfigTest, EveryRequiredFieldIsNamedWhenMissing) {
  for (const char* key :
       {"hidden_size", "vocab_size", "max_position_embeddings",
        "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "intermediate_size"}) {
    EXPECT_EQ(
        ErrorOf(Without(Minimal(), key)).find(std::string(key) + ": missing"),
        0u);
    EXPECT_EQ(ErrorOf(Wrapped(With(Minimal(), key, nullptr)))
                  .find("text_config." + std::string(key) + ": missing"),
              0u);
  }
}

TEST(ModelConfigTest, SizesOutOfRangeAreNamedWithTheirRange) {
  for (const char* key :
       {"hidden_size", "vocab_size", "max_position_embeddings",
        "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "linear_num_key_heads", "linear_num_value_heads",
        "linear_key_head_dim", "linear_value_head_dim",
        "linear_conv_kernel_dim", "intermediate_size", "num_experts",
        "full_attention_interval"}) {
    for (const json& value :
         {json(-1), json(int64_t{1} << 31), json(int64_t{1} << 32),
          json(UINT64_MAX), json(64.0), json("64"), json(true),
          json::array({64})}) {
      const std::string error = ErrorOf(With(Minimal(), key, value));
      EXPECT_EQ(error.find(std::string(key) + ": "), 0u) << error;
      EXPECT_NE(error.find("expected an integer in ["), std::string::npos)
          << error;
    }
  }
  EXPECT_EQ(ErrorOf(With(Minimal(), "hidden_size", 0)),
            "hidden_size: 0, expected an integer in [1, 131072]");
  EXPECT_EQ(ErrorOf(With(Minimal(), "linear_conv_kernel_dim", 9)),
            "linear_conv_kernel_dim: 9, expected an integer in [2, 8]");
  EXPECT_EQ(ErrorOf(With(Minimal(), "rms_norm_eps", 0)),
            "rms_norm_eps: 0, expected a number in [1e-12, 0.1]");
}

TEST(ModelConfigTest, HeadsMustDivide) {
  EXPECT_EQ(ErrorOf(With(Minimal(), "num_attention_heads", 5)),
            "num_attention_heads: 5, expected a multiple of "
            "num_key_value_heads, 2");
  EXPECT_EQ(ErrorOf(With(Minimal(), "linear_num_value_heads", 24)),
            "linear_num_value_heads: 24, expected a multiple of "
            "linear_num_key_heads, 16");
}

TEST(ModelConfigTest, TheLayerListMustHaveTheNumberOfLayers) {
  EXPECT_EQ(ErrorOf(With(Minimal(), "layer_types", json{"full_attention"})),
            "layer_types: lists 1 layers, expected 4");
}

TEST(ModelConfigTest, AMixtureOfExpertsNeedsAllItsSizes) {
  json moe = Without(Minimal(), "intermediate_size");
  moe.update({{"num_experts", 8},
              {"num_experts_per_tok", 2},
              {"moe_intermediate_size", 32},
              {"shared_expert_intermediate_size", 48}});

  EXPECT_EQ(Parsed(moe).moe->experts_per_token, 2);
  EXPECT_EQ(ErrorOf(With(moe, "num_experts_per_tok", 9)),
            "num_experts_per_tok: 9, expected an integer in [1, 8]");
  EXPECT_NE(ErrorOf(Without(moe, "moe_intermediate_size")), "");
  EXPECT_NE(ErrorOf(Without(moe, "shared_expert_intermediate_size")), "");
  EXPECT_EQ(ErrorOf(Without(moe, "num_experts")),
            "intermediate_size: missing, and num_experts is not set");
}

TEST(ModelConfigTest, DerivedWidthsOfTheLargestSizesDoNotOverflow) {
  json config = Minimal();
  config.update({{"hidden_size", 1 << 17},
                 {"vocab_size", 1 << 24},
                 {"num_attention_heads", 4096},
                 {"num_key_value_heads", 4096},
                 {"head_dim", 1024},
                 {"linear_num_key_heads", 4096},
                 {"linear_num_value_heads", 4096},
                 {"linear_key_head_dim", 1024},
                 {"linear_value_head_dim", 1024}});

  const ModelConfig parsed = Parsed(config);

  EXPECT_EQ(parsed.query_dim(), 1 << 22);
  EXPECT_EQ(parsed.conv_dim(), 3 << 22);
}

TEST(ModelConfigTest, HostileTextIsAnError) {
  EXPECT_EQ(ErrorOfText("[]"), "is not a JSON object");
  EXPECT_EQ(ErrorOfText(std::string(1'000'000, '[')),
            "JSON: nested deeper than 16");
  EXPECT_EQ(ErrorOfText(R"({"text_config": 7})"),
            "text_config: 7, expected an object");
  for (const char* text :
       {"", "{", "{\"hidden_size\": NaN}", "{\"hidden_size\": 1e999}",
        "{\"hidden_size\": 1, \"hidden_size\": 2}", "\xff"}) {
    EXPECT_NE(ErrorOfText(text), "") << text;
  }
}

TEST(ModelConfigTest, EveryTruncationOfAFileIsAnError) {
  std::ifstream file("models/demo/config.json");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  text.erase(text.rfind('}') + 1);
  ASSERT_TRUE(ParseModelConfig(text).ok());

  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(ParseModelConfig(std::string_view(text).substr(0, size)).ok())
        << size;
  }
}

TEST(ModelConfigTest, LoadNamesTheFile) {
  const ScopedDirectory directory;
  const std::string path = directory.File("config.json");

  EXPECT_EQ(LoadModelConfig(directory.path()).status().message(),
            path + ": No such file or directory");
  directory.Write("config.json", "7");
  EXPECT_EQ(LoadModelConfig(directory.path()).status().message(),
            path + ": is not a JSON object");
}

}  // namespace
}  // namespace bole
