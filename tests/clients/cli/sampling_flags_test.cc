#include "clients/cli/sampling_flags.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "common/command_line.h"

namespace bole {
namespace {

v1::SamplingParams Parse(std::vector<const char*> arguments) {
  CommandLine line("test", "");
  SamplingFlags flags;
  flags.AddTo(line);
  arguments.insert(arguments.begin(), "test");
  EXPECT_EQ(line.Parse(static_cast<int>(arguments.size()), arguments.data()),
            std::nullopt);
  return flags.ToProto();
}

TEST(SamplingFlagsTest, WhatIsNotGivenIsLeftToTheServer) {
  EXPECT_EQ(Parse({}).ByteSizeLong(), 0u);
}

TEST(SamplingFlagsTest, ZeroIsNotAbsence) {
  const v1::SamplingParams params = Parse({"--temperature", "0"});

  EXPECT_TRUE(params.has_temperature());
  EXPECT_EQ(params.temperature(), 0.0f);
  EXPECT_FALSE(params.has_top_p());
}

TEST(SamplingFlagsTest, EveryFlagHasItsField) {
  const v1::SamplingParams params = Parse({"--max-tokens",
                                           "9",
                                           "--min-tokens",
                                           "1",
                                           "--temperature",
                                           "0.5",
                                           "--top-p",
                                           "0.25",
                                           "--top-k",
                                           "-1",
                                           "--min-p",
                                           "0.125",
                                           "--frequency-penalty",
                                           "-1.5",
                                           "--presence-penalty",
                                           "2.5",
                                           "--repetition-penalty",
                                           "1.5",
                                           "--seed",
                                           "18446744073709551615",
                                           "--logprobs",
                                           "3",
                                           "--ignore-eos"});

  EXPECT_EQ(params.max_tokens(), 9);
  EXPECT_EQ(params.min_tokens(), 1);
  EXPECT_EQ(params.temperature(), 0.5f);
  EXPECT_EQ(params.top_p(), 0.25f);
  EXPECT_EQ(params.top_k(), -1);
  EXPECT_EQ(params.min_p(), 0.125f);
  EXPECT_EQ(params.frequency_penalty(), -1.5f);
  EXPECT_EQ(params.presence_penalty(), 2.5f);
  EXPECT_EQ(params.repetition_penalty(), 1.5f);
  EXPECT_EQ(params.seed(), 18446744073709551615u);
  EXPECT_EQ(params.logprobs(), 3);
  EXPECT_TRUE(params.ignore_eos());
}

TEST(SamplingFlagsTest, StopMayBeGivenAgain) {
  const v1::SamplingParams params = Parse({"--stop", "\n\n", "--stop", "a, b"});

  ASSERT_EQ(params.stop_size(), 2);
  EXPECT_EQ(params.stop(0), "\n\n");
  EXPECT_EQ(params.stop(1), "a, b");
}

}  // namespace
}  // namespace bole
