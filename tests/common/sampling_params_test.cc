#include "common/sampling_params.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/field_error.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr int kVocabulary = 100;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(SamplingParamsTest, TheDefaultsFilterNothing) {
  const SamplingParams params;

  EXPECT_TRUE(Validate(params, kVocabulary).ok());
  EXPECT_EQ(params.temperature, 1.0f);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.top_p, 1.0f);
  EXPECT_EQ(params.min_p, 0.0f);
  EXPECT_EQ(params.presence_penalty, 0.0f);
  EXPECT_EQ(params.frequency_penalty, 0.0f);
  EXPECT_EQ(params.repetition_penalty, 1.0f);
  EXPECT_FALSE(params.max_tokens.has_value());
}

TEST(SamplingParamsTest, TheEndsOfEveryRangeAreAllowed) {
  const SamplingParams low = {.temperature = 0,
                              .top_k = 0,
                              .top_p = 1e-6f,
                              .min_p = 0,
                              .presence_penalty = -2,
                              .frequency_penalty = -2,
                              .repetition_penalty = 1e-6f,
                              .logit_bias = {{0, -100.0f}},
                              .seed = 0,
                              .max_tokens = 1,
                              .stop_token_ids = {0},
                              .ignore_eos = false,
                              .logprobs = false,
                              .top_logprobs = 0};
  const SamplingParams high = {
      .temperature = kMaxTemperature,
      .top_k = std::numeric_limits<int32_t>::max(),
      .top_p = 1,
      .min_p = 1,
      .presence_penalty = 2,
      .frequency_penalty = 2,
      .repetition_penalty = kMaxRepetitionPenalty,
      .logit_bias = {{kVocabulary - 1, 100.0f}},
      .seed = std::numeric_limits<uint64_t>::max(),
      .max_tokens = std::numeric_limits<int32_t>::max(),
      .stop_token_ids = {kVocabulary - 1},
      .ignore_eos = true,
      .logprobs = true,
      .top_logprobs = 20};

  EXPECT_TRUE(Validate(low, kVocabulary).ok()) << Validate(low, kVocabulary);
  EXPECT_TRUE(Validate(high, kVocabulary).ok()) << Validate(high, kVocabulary);
}

struct Refused {
  std::function<void(SamplingParams&)> set;
  std::string message;
};

TEST(SamplingParamsTest, ARefusalNamesFieldValueAndRange) {
  const std::vector<Refused> cases = {
      {[](SamplingParams& p) { p.temperature = -0.5f; },
       "temperature is -0.5; allowed is [0, 100]"},
      {[](SamplingParams& p) { p.temperature = kInfinity; },
       "temperature is inf; allowed is [0, 100]"},
      {[](SamplingParams& p) { p.temperature = kNan; },
       "temperature is nan; allowed is [0, 100]"},
      {[](SamplingParams& p) { p.top_k = -1; },
       "top_k is -1; allowed is 0 and more"},
      {[](SamplingParams& p) { p.top_p = 0; }, "top_p is 0; allowed is (0, 1]"},
      {[](SamplingParams& p) { p.top_p = 1.5f; },
       "top_p is 1.5; allowed is (0, 1]"},
      {[](SamplingParams& p) { p.top_p = kNan; },
       "top_p is nan; allowed is (0, 1]"},
      {[](SamplingParams& p) { p.min_p = -0.25f; },
       "min_p is -0.25; allowed is [0, 1]"},
      {[](SamplingParams& p) { p.min_p = kNan; },
       "min_p is nan; allowed is [0, 1]"},
      {[](SamplingParams& p) { p.presence_penalty = 2.5f; },
       "presence_penalty is 2.5; allowed is [-2, 2]"},
      {[](SamplingParams& p) { p.frequency_penalty = -kInfinity; },
       "frequency_penalty is -inf; allowed is [-2, 2]"},
      {[](SamplingParams& p) { p.repetition_penalty = 0; },
       "repetition_penalty is 0; allowed is (0, 100]"},
      {[](SamplingParams& p) { p.repetition_penalty = kNan; },
       "repetition_penalty is nan; allowed is (0, 100]"},
      {[](SamplingParams& p) {
         p.logit_bias = {{100, 1.0f}};
       },
       "logit_bias is 100; allowed is a token in [0, 100)"},
      {[](SamplingParams& p) {
         p.logit_bias = {{-1, 1.0f}};
       },
       "logit_bias is -1; allowed is a token in [0, 100)"},
      {[](SamplingParams& p) {
         p.logit_bias = {{7, 100.5f}};
       },
       "logit_bias of 7 is 100.5; allowed is [-100, 100]"},
      {[](SamplingParams& p) {
         p.logit_bias = {{7, kNan}};
       },
       "logit_bias of 7 is nan; allowed is [-100, 100]"},
      {[](SamplingParams& p) {
         p.logit_bias = {{7, 1}, {8, 1}, {7, 2}};
       },
       "logit_bias has token 7 twice"},
      {[](SamplingParams& p) { p.logit_bias.resize(1025); },
       "the number of logit_bias is 1025; allowed is [0, 1024]"},
      {[](SamplingParams& p) { p.max_tokens = 0; },
       "max_tokens is 0; allowed is 1 and more"},
      {[](SamplingParams& p) {
         p.stop_token_ids = {3, 100};
       },
       "stop_token_ids is 100; allowed is a token in [0, 100)"},
      {[](SamplingParams& p) { p.stop_token_ids.resize(65); },
       "the number of stop_token_ids is 65; allowed is [0, 64]"},
      {[](SamplingParams& p) { p.top_logprobs = 21; },
       "top_logprobs is 21; allowed is [0, 20]"},
      {[](SamplingParams& p) { p.top_logprobs = -1; },
       "top_logprobs is -1; allowed is [0, 20]"},
      {[](SamplingParams& p) { p.top_logprobs = 5; },
       "top_logprobs is 5; allowed is 0 without logprobs"},
  };
  for (const Refused& refused : cases) {
    SamplingParams params;

    refused.set(params);

    const absl::Status status = Validate(params, kVocabulary);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()), refused.message);
    // The field is there as a type, too.
    const std::string field = FieldOf(status).value_or("no field");
    EXPECT_NE(refused.message.find(field), std::string::npos) << field;
  }
}

}  // namespace
}  // namespace bole
