#include "worker_service/model/generation_config.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

std::string ErrorOf(std::string_view text) {
  const absl::Status status = ParseGenerationConfig(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(GenerationConfigTest, ReadsTheDemoFile) {
  const absl::StatusOr<std::optional<GenerationConfig>> config =
      LoadGenerationConfig("models/demo");

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, (GenerationConfig{.eos_token_ids = {8189, 8187},
                                       .do_sample = true,
                                       .temperature = 0.7,
                                       .top_k = 20,
                                       .top_p = 0.95,
                                       .min_p = 0,
                                       .repetition_penalty = 1}));
}

TEST(GenerationConfigTest, AMissingFileIsNothing) {
  const ScopedDirectory directory;

  const absl::StatusOr<std::optional<GenerationConfig>> config =
      LoadGenerationConfig(directory.path());

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->has_value());
}

TEST(GenerationConfigTest, EveryChoiceReachesTheRequests) {
  const absl::StatusOr<GenerationConfig> config = ParseGenerationConfig(
      R"({"temperature": 0.5, "top_k": 7, "top_p": 0.75, "min_p": 0.125,
          "repetition_penalty": 1.25})");

  ASSERT_TRUE(config.ok()) << config.status();
  SamplingParams want;
  want.temperature = 0.5f;
  want.top_k = 7;
  want.top_p = 0.75f;
  want.min_p = 0.125f;
  want.repetition_penalty = 1.25f;
  EXPECT_EQ(SamplingDefaults(*config), want);
  EXPECT_EQ(DescribeDefaults(*config),
            "temperature 0.5, top_k 7, top_p 0.75, min_p 0.125, "
            "repetition_penalty 1.25");
}

// Penalties hold for greedy requests too.
TEST(GenerationConfigTest, WithoutSamplingTheTemperatureIsZero) {
  const absl::StatusOr<GenerationConfig> config = ParseGenerationConfig(
      R"({"do_sample": false, "temperature": 0.5, "repetition_penalty": 2})");

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(SamplingDefaults(*config).temperature, 0);
  EXPECT_EQ(SamplingDefaults(*config).repetition_penalty, 2);
}

TEST(GenerationConfigTest, OneStopIdNeedsNoList) {
  const absl::StatusOr<GenerationConfig> config =
      ParseGenerationConfig(R"({"eos_token_id": 7, "do_sample": false})");

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->eos_token_ids, (std::vector<int>{7}));
  EXPECT_FALSE(config->do_sample);
}

TEST(GenerationConfigTest, ValuesOutOfRangeAreNamed) {
  EXPECT_EQ(ErrorOf(R"({"temperature": -0.5})"),
            "temperature: -0.5, expected a number in [0, 100]");
  EXPECT_EQ(ErrorOf(R"({"top_p": 1.5})"),
            "top_p: 1.5, expected a number in [0, 1]");
  EXPECT_EQ(ErrorOf(R"({"top_k": -1})"),
            "top_k: -1, expected an integer in [0, 2147483647]");
  EXPECT_EQ(ErrorOf(R"({"eos_token_id": [1, -2]})"),
            "eos_token_id: -2, expected an integer in [0, 2147483647]");
  EXPECT_EQ(ErrorOf(R"({"min_p": 1.5})"),
            "min_p: 1.5, expected a number in [0, 1]");
  EXPECT_EQ(ErrorOf(R"({"repetition_penalty": -1})"),
            "repetition_penalty: -1, expected a number in [0, 100]");
  EXPECT_EQ(ErrorOf(R"({"repetition_penalty": 0})"),
            "repetition_penalty is 0; allowed is (0, 100]");
  EXPECT_EQ(ErrorOf(R"({"top_p": 0})"), "top_p is 0; allowed is (0, 1]");
  EXPECT_EQ(ErrorOf(R"({"do_sample": 1})"),
            "do_sample: 1, expected true or false");
  EXPECT_EQ(ErrorOf("3"), "is not a JSON object");
}

TEST(GenerationConfigTest, ABadFileIsNamed) {
  const ScopedDirectory directory;
  const std::string path = directory.Write("generation_config.json", "[]");

  EXPECT_EQ(LoadGenerationConfig(directory.path()).status(),
            absl::InvalidArgumentError(path + ": is not a JSON object"));
}

TEST(GenerationConfigTest, StopIdsAreThoseOfBothFiles) {
  ModelConfig model;
  model.vocab_size = 100;
  model.eos_token_ids = {44};

  const absl::StatusOr<std::vector<int>> ids =
      StopIds(model, {.eos_token_ids = {46, 44}});

  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(*ids, (std::vector<int>{44, 46}));
  EXPECT_EQ(StopIds(model, {.eos_token_ids = {100}}).status(),
            absl::InvalidArgumentError(
                "generation_config.json: eos_token_id: 100, expected less than "
                "vocab_size, 100"));
}

TEST(GenerationConfigTest, ACheckpointMayHaveNoStopId) {
  ModelConfig model;
  model.vocab_size = 100;

  const absl::StatusOr<std::vector<int>> ids = StopIds(model, {});

  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_TRUE(ids->empty());
}

}  // namespace
}  // namespace bole
