#include "scheduler_service/door/messages/sampling_codec.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/field_error.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/served_model.h"

namespace bole {
namespace {

using testing::TinyWorker;

// Both halves, as a request decodes them.
absl::Status Decode(const v1::SamplingParams& message) {
  const auto params = DecodeSampling(message, TinyWorker());
  if (!params.ok()) return params.status();
  return DecodeTextParams(message).status();
}

TEST(SamplingCodecTest, WhatIsAbsentIsTheCheckpointsDefaultOrNeutral) {
  const auto params = DecodeSampling(v1::SamplingParams(), TinyWorker());

  ASSERT_TRUE(params.ok()) << params.status();
  SamplingParams want;
  want.temperature = 0.5f;
  want.top_k = 20;
  want.top_p = 0.75f;
  want.min_p = 0.0625f;
  want.repetition_penalty = 1.125f;
  want.seed = params->seed;
  EXPECT_EQ(*params, want);
}

TEST(SamplingCodecTest, ZeroIsAValueAndNotAbsence) {
  v1::SamplingParams message;
  message.set_temperature(0);
  message.set_top_k(0);
  message.set_seed(0);

  const auto params = DecodeSampling(message, TinyWorker());

  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature, 0);
  EXPECT_EQ(params->top_k, 0);
  EXPECT_EQ(params->seed, 0u);
}

TEST(SamplingCodecTest, EveryFieldArrives) {
  v1::SamplingParams message;
  message.set_temperature(1.5f);
  message.set_top_p(0.5f);
  message.set_top_k(7);
  message.set_min_p(0.125f);
  message.set_frequency_penalty(-1);
  message.set_presence_penalty(2);
  message.set_repetition_penalty(1.25f);
  message.set_max_tokens(9);
  message.set_min_tokens(4);
  message.add_stop_token_ids(5);
  message.add_stop_token_ids(6);
  message.set_ignore_eos(true);
  message.set_logprobs(4);
  message.set_seed(std::numeric_limits<uint64_t>::max());
  (*message.mutable_logit_bias())[9] = -1;
  (*message.mutable_logit_bias())[3] = 50;

  const auto params = DecodeSampling(message, TinyWorker());

  ASSERT_TRUE(params.ok()) << params.status();
  SamplingParams want;
  want.temperature = 1.5f;
  want.top_p = 0.5f;
  want.top_k = 7;
  want.min_p = 0.125f;
  want.frequency_penalty = -1;
  want.presence_penalty = 2;
  want.repetition_penalty = 1.25f;
  want.max_tokens = 9;
  want.min_tokens = 4;
  want.stop_token_ids = {5, 6};
  want.ignore_eos = true;
  want.logprobs = true;
  want.top_logprobs = 4;
  want.seed = std::numeric_limits<uint64_t>::max();
  want.logit_bias = {{3, 50}, {9, -1}};
  EXPECT_EQ(*params, want);
}

TEST(SamplingCodecTest, LogprobsOfZeroAreThoseOfTheTokensAlone) {
  v1::SamplingParams message;
  message.set_logprobs(0);

  const auto params = DecodeSampling(message, TinyWorker());

  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_TRUE(params->logprobs);
  EXPECT_EQ(params->top_logprobs, 0);
}

TEST(SamplingCodecTest, SeedsThatAreDrawnDiffer) {
  const auto first = DecodeSampling(v1::SamplingParams(), TinyWorker());
  const auto second = DecodeSampling(v1::SamplingParams(), TinyWorker());

  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->seed, second->seed);
}

TEST(SamplingCodecTest, TextParamsArrive) {
  v1::SamplingParams message;
  message.add_stop("\n\n");
  message.add_stop("\xE2\x82\xAC");
  message.set_include_stop_str_in_output(true);
  message.set_skip_special_tokens(false);

  const auto params = DecodeTextParams(message);
  const auto defaults = DecodeTextParams(v1::SamplingParams());

  ASSERT_TRUE(params.ok() && defaults.ok());
  EXPECT_EQ(params->stop, (std::vector<std::string>{"\n\n", "\xE2\x82\xAC"}));
  EXPECT_TRUE(params->include_stop_in_output);
  EXPECT_FALSE(params->skip_special_tokens);
  EXPECT_TRUE(defaults->stop.empty());
  EXPECT_FALSE(defaults->include_stop_in_output);
  EXPECT_TRUE(defaults->skip_special_tokens);
}

TEST(SamplingCodecTest, DefaultsAreReportedAsTheyAreUsed) {
  const v1::SamplingParams defaults = EncodeDefaults(TinyWorker());

  WorkerDescription other;  // One that has other defaults.
  other.limits = TinyWorker().limits;
  const auto params = DecodeSampling(defaults, other);

  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature, 0.5f);
  EXPECT_EQ(params->top_k, 20);
  EXPECT_EQ(params->top_p, 0.75f);
  EXPECT_EQ(params->min_p, 0.0625f);
  EXPECT_EQ(params->repetition_penalty, 1.125f);
}

TEST(SamplingCodecTest, ARequestCanUndoTheCheckpointsDefaults) {
  v1::SamplingParams message;
  message.set_min_p(0);
  message.set_repetition_penalty(1);

  const auto params = DecodeSampling(message, TinyWorker());

  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->min_p, 0);
  EXPECT_EQ(params->repetition_penalty, 1);
}

// A message that is wrong in one place, and what the error must name.
struct Wrong {
  std::string name;
  std::function<void(v1::SamplingParams&)> spoil;
  std::string field;
  std::string value;
};

class WrongSamplingTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongSamplingTest, IsRefusedWithFieldAndValue) {
  v1::SamplingParams message;
  GetParam().spoil(message);

  const absl::Status status = Decode(message);

  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  const std::string text(status.message());
  EXPECT_NE(text.find("sampling_params"), text.npos) << text;
  EXPECT_NE(text.find(GetParam().field), text.npos) << text;
  EXPECT_NE(text.find(GetParam().value), text.npos) << text;
  EXPECT_EQ(FieldOf(status).value_or("").substr(0, 16), "sampling_params.");
}

using Params = v1::SamplingParams;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Fields, WrongSamplingTest,
    ::testing::Values(
        Wrong{"temperature_negative", [](Params& p) { p.set_temperature(-1); },
              "temperature", "-1"},
        Wrong{"temperature_nan", [](Params& p) { p.set_temperature(kNan); },
              "temperature", "nan"},
        Wrong{"temperature_infinite",
              [](Params& p) { p.set_temperature(kInfinity); }, "temperature",
              "inf"},
        Wrong{"top_p_zero", [](Params& p) { p.set_top_p(0); }, "top_p", "0"},
        Wrong{"top_p_above_one", [](Params& p) { p.set_top_p(1.5f); }, "top_p",
              "1.5"},
        Wrong{"top_p_nan", [](Params& p) { p.set_top_p(kNan); }, "top_p",
              "nan"},
        Wrong{"top_k_negative", [](Params& p) { p.set_top_k(-1); }, "top_k",
              "-1"},
        Wrong{"min_p_above_one", [](Params& p) { p.set_min_p(1.25f); }, "min_p",
              "1.25"},
        Wrong{"min_p_nan", [](Params& p) { p.set_min_p(kNan); }, "min_p",
              "nan"},
        Wrong{"frequency_penalty",
              [](Params& p) { p.set_frequency_penalty(2.5f); },
              "frequency_penalty", "2.5"},
        Wrong{"presence_penalty", [](Params& p) { p.set_presence_penalty(-3); },
              "presence_penalty", "-3"},
        Wrong{"presence_penalty_nan",
              [](Params& p) { p.set_presence_penalty(kNan); },
              "presence_penalty", "nan"},
        Wrong{"repetition_penalty_zero",
              [](Params& p) { p.set_repetition_penalty(0); },
              "repetition_penalty", "0"},
        Wrong{"repetition_penalty_infinite",
              [](Params& p) { p.set_repetition_penalty(kInfinity); },
              "repetition_penalty", "inf"},
        Wrong{"max_tokens_zero", [](Params& p) { p.set_max_tokens(0); },
              "max_tokens", "0"},
        Wrong{"max_tokens_negative", [](Params& p) { p.set_max_tokens(-5); },
              "max_tokens", "-5"},
        Wrong{"logprobs_above_20", [](Params& p) { p.set_logprobs(21); },
              "logprobs", "21"},
        Wrong{"logprobs_negative", [](Params& p) { p.set_logprobs(-1); },
              "logprobs", "-1"},
        Wrong{"stop_token_outside_the_vocabulary",
              [](Params& p) { p.add_stop_token_ids(303); }, "stop_token_ids",
              "303"},
        Wrong{"stop_token_beyond_int32",
              [](Params& p) { p.add_stop_token_ids(4'000'000'000u); },
              "stop_token_ids", "4000000000"},
        Wrong{"too_many_stop_tokens",
              [](Params& p) {
                for (int i = 0; i < 65; ++i) p.add_stop_token_ids(i);
              },
              "stop_token_ids", "65"},
        Wrong{"bias_beyond_int32",
              [](Params& p) { (*p.mutable_logit_bias())[4'000'000'000u] = 1; },
              "logit_bias", "4000000000"},
        Wrong{"bias_outside_the_vocabulary",
              [](Params& p) { (*p.mutable_logit_bias())[303] = 1; },
              "logit_bias", "303"},
        Wrong{"bias_too_large",
              [](Params& p) { (*p.mutable_logit_bias())[3] = 101; },
              "logit_bias of 3", "101"},
        Wrong{"bias_nan",
              [](Params& p) { (*p.mutable_logit_bias())[3] = kNan; },
              "logit_bias of 3", "nan"},
        Wrong{"too_many_biases",
              [](Params& p) {
                for (int i = 0; i < 1025; ++i) (*p.mutable_logit_bias())[i] = 1;
              },
              "logit_bias", "1025"},
        Wrong{"stop_empty",
              [](Params& p) {
                p.add_stop("ok");
                p.add_stop("");
              },
              "stop[1]", "0"},
        Wrong{"stop_too_long",
              [](Params& p) { p.add_stop(std::string(257, 'x')); }, "stop[0]",
              "257"},
        Wrong{"stop_not_utf8", [](Params& p) { p.add_stop("a\xFF"); },
              "stop[0]", "'a?'"},
        Wrong{"too_many_stops",
              [](Params& p) {
                for (int i = 0; i < 17; ++i) p.add_stop("x");
              },
              "stop", "17"}),
    [](const auto& test) { return test.param.name; });

TEST(SamplingCodecTest, BoundsThemselvesAreAllowed) {
  v1::SamplingParams message;
  for (int i = 0; i < kMaxStopStrings; ++i) {
    message.add_stop(std::string(kMaxStopBytes, 'x'));
  }
  for (size_t i = 0; i < kMaxStopTokens; ++i) message.add_stop_token_ids(i);
  message.set_logprobs(20);
  message.set_top_p(1);
  message.set_max_tokens(1);

  EXPECT_TRUE(Decode(message).ok()) << Decode(message);
}

}  // namespace
}  // namespace bole
