#include "worker_service/model/rope_config.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using nlohmann::json;

RopeConfig Read(std::string_view text, int head_dim = 256) {
  const absl::StatusOr<RopeConfig> rope =
      ReadRopeConfig(json::parse(text), "text_config", head_dim);
  EXPECT_TRUE(rope.ok()) << rope.status();
  return rope.ok() ? *rope : RopeConfig{};
}

std::string ErrorOf(std::string_view text, int head_dim = 256) {
  const absl::Status status =
      ReadRopeConfig(json::parse(text), "text_config", head_dim).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

// The published long-context setting.
RopeConfig Yarn() {
  return {.rotary_dim = 64,
          .theta = 1e7,
          .yarn = YarnScaling{.factor = 4, .original_max_positions = 262144}};
}

TEST(RopeConfigTest, ReadsThePublishedParameters) {
  const RopeConfig rope = Read(
      R"({"rope_parameters": {"mrope_interleaved": true,
          "mrope_section": [11, 11, 10], "rope_type": "default",
          "rope_theta": 10000000, "partial_rotary_factor": 0.25}})");

  EXPECT_EQ(rope, (RopeConfig{.rotary_dim = 64, .theta = 1e7}));
}

TEST(RopeConfigTest, DefaultsApplyWhenNothingIsSaid) {
  EXPECT_EQ(Read("{}"), (RopeConfig{.rotary_dim = 64, .theta = 1e4}));
  EXPECT_EQ(Read(R"({"rope_parameters": null, "rope_scaling": null})"),
            (RopeConfig{.rotary_dim = 64, .theta = 1e4}));
}

TEST(RopeConfigTest, OlderFieldsAreReadAndNewerOnesWin) {
  EXPECT_EQ(Read(R"({"rope_theta": 5e6, "partial_rotary_factor": 0.5})"),
            (RopeConfig{.rotary_dim = 128, .theta = 5e6}));
  EXPECT_EQ(Read(R"({"rope_theta": 5e6, "partial_rotary_factor": 0.5,
                     "rope_parameters": {"rope_theta": 1e7,
                                         "partial_rotary_factor": 0.25}})"),
            (RopeConfig{.rotary_dim = 64, .theta = 1e7}));
  EXPECT_EQ(Read(R"({"rope_theta": 5e6, "rope_parameters": {},
                     "rope_scaling": {"type": "yarn"}})"),
            (RopeConfig{.rotary_dim = 64, .theta = 5e6}));
}

TEST(RopeConfigTest, ReadsYarnFromEitherPlace) {
  EXPECT_EQ(Read(R"({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e7,
               "factor": 4.0, "original_max_position_embeddings": 262144}})"),
            Yarn());
  EXPECT_EQ(Read(R"({"rope_theta": 1e7, "rope_scaling": {"type": "yarn",
               "factor": 4, "original_max_position_embeddings": 262144}})"),
            Yarn());

  RopeConfig all = Yarn();
  all.yarn->beta_fast = 16;
  all.yarn->beta_slow = 2;
  all.yarn->attention_factor = 1.5;
  EXPECT_EQ(Read(R"({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e7,
               "factor": 4.0, "original_max_position_embeddings": 262144,
               "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.5}})"),
            all);
}

TEST(RopeConfigTest, RefusesWhatItCannotRotate) {
  EXPECT_EQ(ErrorOf(R"({"rope_parameters": {"rope_type": "llama3"}})"),
            "text_config.rope_parameters.rope_type: \"llama3\", expected "
            "\"default\" or \"yarn\"");
  EXPECT_EQ(ErrorOf(R"({"rope_scaling": {"type": "linear", "factor": 2}})"),
            "text_config.rope_scaling.type: \"linear\", expected \"default\" "
            "or \"yarn\"");
  EXPECT_EQ(ErrorOf(R"({"partial_rotary_factor": 0.25})", 20),
            "text_config.rope_parameters.partial_rotary_factor: 0.25 rotates 5 "
            "of 20 dimensions, expected an even number >= 2");
  EXPECT_NE(ErrorOf(R"({"partial_rotary_factor": 0})"), "");
  EXPECT_NE(ErrorOf(R"({"partial_rotary_factor": 1.01})"), "");
  EXPECT_NE(ErrorOf(R"({"partial_rotary_factor": "0.25"})"), "");
  EXPECT_NE(ErrorOf(R"({"rope_theta": 1})"), "");
  EXPECT_NE(ErrorOf(R"({"rope_theta": -1e7})"), "");
  EXPECT_NE(ErrorOf(R"({"rope_parameters": [1]})"), "");
}

TEST(RopeConfigTest, RefusesAnIncompleteYarn) {
  const auto error = [](const std::string& fields) {
    return ErrorOf(R"({"rope_parameters": {"rope_type": "yarn", )" + fields +
                   "}}");
  };

  EXPECT_EQ(error(R"("factor": 4)"),
            "text_config.rope_parameters.original_max_position_embeddings: "
            "missing, expected an integer in [1, 268435456]");
  EXPECT_EQ(error(R"("original_max_position_embeddings": 4096)"),
            "text_config.rope_parameters.factor: missing, expected a number in "
            "[1, 1024]");
  const std::string whole =
      R"("factor": 4, "original_max_position_embeddings": 4096, )";
  EXPECT_EQ(error(whole + R"("beta_fast": 1)"),
            "text_config.rope_parameters.beta_fast: 1, expected more than "
            "beta_slow, 1");
  EXPECT_EQ(error(whole + R"("mscale": 1)"),
            "text_config.rope_parameters.mscale: is not supported");
}

TEST(RopeConfigTest, FrequenciesFallGeometrically) {
  const std::vector<float> frequencies =
      InverseFrequencies({.rotary_dim = 64, .theta = 1e7});

  ASSERT_EQ(frequencies.size(), 32u);
  EXPECT_EQ(frequencies[0], 1.0f);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    // Computed in double and rounded once.
    const double want = std::pow(1e7, -2.0 * static_cast<double>(i) / 64);
    EXPECT_EQ(frequencies[i], static_cast<float>(want)) << i;
  }
  EXPECT_EQ(RotaryScale({.rotary_dim = 64, .theta = 1e7}), 1.0f);
}

TEST(RopeConfigTest, YarnKeepsFastFrequenciesAndDividesSlowOnes) {
  const std::vector<float> plain =
      InverseFrequencies({.rotary_dim = 64, .theta = 1e7});

  const std::vector<float> yarn = InverseFrequencies(Yarn());

  // By hand: 64 ln(262144 / (64 pi)) / (2 ln 1e7) = 14.2 and, for one rotation,
  // 64 ln(262144 / (2 pi)) / (2 ln 1e7) = 21.1: the ramp runs from 14 to 22.
  ASSERT_EQ(yarn.size(), 32u);
  for (size_t i = 0; i < yarn.size(); ++i) {
    const double ramp = i <= 14   ? 0
                        : i >= 22 ? 1
                                  : (static_cast<double>(i) - 14) / 8;
    const double want = plain[i] * ((1 - ramp) + ramp / 4);
    EXPECT_NEAR(yarn[i], want, 1e-6 * want) << i;
  }
  EXPECT_FLOAT_EQ(yarn[18], 7.217387404309113e-05f);
}

TEST(RopeConfigTest, YarnScalesCosineAndSine) {
  RopeConfig rope = Yarn();
  EXPECT_FLOAT_EQ(RotaryScale(rope), 1.138629436111989f);

  rope.yarn->attention_factor = 0.5;
  EXPECT_EQ(RotaryScale(rope), 0.5f);
}

TEST(RopeConfigTest, AYarnRampOfNoWidthIsAStep) {
  RopeConfig rope = Yarn();
  rope.yarn->original_max_positions = 1;  // Every frequency is slow.

  const std::vector<float> frequencies = InverseFrequencies(rope);

  EXPECT_EQ(frequencies[0], 1.0f);
  for (size_t i = 1; i < frequencies.size(); ++i) {
    const double want = std::pow(1e7, -2.0 * static_cast<double>(i) / 64) / 4;
    EXPECT_NEAR(frequencies[i], want, 1e-6 * want) << i;
  }
}

}  // namespace
}  // namespace bole
