#include "clients/cli/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "nlohmann/json.hpp"
#include "proto/bole.pb.h"

namespace bole {
namespace {

using testing::HasSubstr;

TEST(ToJsonTest, UsesTheNamesOfTheProtoFileAndShowsZeros) {
  v1::GenerateResponse response;
  response.mutable_complete()->mutable_speculation()->set_rounds(3);

  const nlohmann::json json = nlohmann::json::parse(ToJson(response));

  EXPECT_EQ(json["complete"]["speculation"]["rounds"], 3);
  EXPECT_EQ(json["complete"]["speculation"]["accepted_drafts"], 0);
  EXPECT_EQ(json["complete"]["output_ids"], nlohmann::json::array());
}

TEST(ToJsonTest, AnAbsentOptionalFieldIsAbsent) {
  v1::SamplingParams params;
  params.set_top_p(0);

  const nlohmann::json json = nlohmann::json::parse(ToJson(params));

  EXPECT_TRUE(json.contains("top_p"));
  EXPECT_FALSE(json.contains("temperature"));
}

TEST(ToJsonTest, ASeedOf64BitsIsExact) {
  v1::GenerateComplete complete;
  complete.set_seed(18446744073709551615u);

  EXPECT_EQ(nlohmann::json::parse(ToJson(complete))["seed"],
            "18446744073709551615");
}

TEST(ToJsonTest, AnyTextIsOneLine) {
  v1::DetokenizeResponse response;
  response.set_text("a\n\"\033");

  EXPECT_EQ(ToJson(response), "{\"text\":\"a\\n\\\"\\u001b\"}");
}

TEST(JsonStringTest, BytesThatAreNoCharacterAreReplaced) {
  EXPECT_EQ(JsonString("a\xFF"), "\"a\xEF\xBF\xBD\"");
}

v1::GenerateComplete Complete() {
  v1::GenerateComplete complete;
  complete.mutable_usage()->set_prompt_tokens(12);
  complete.mutable_usage()->set_completion_tokens(101);
  complete.mutable_speculation()->set_rounds(40);
  complete.mutable_speculation()->set_accepted_drafts(60);
  complete.mutable_timing()->set_first_token_seconds(0.25);
  complete.mutable_timing()->set_total_seconds(2.25);
  complete.set_finish_reason(v1::FINISH_REASON_STOP);
  complete.set_matched_token_id(7);
  return complete;
}

TEST(SummaryTest, HasALineForEachNumber) {
  EXPECT_EQ(Summary(Complete()),
            "prompt tokens         12\n"
            "output tokens         101\n"
            "tokens per second     50.0\n"
            "rounds                40\n"
            "mean accepted tokens  2.50\n"
            "time to first token   0.250 s\n"
            "finish reason         stop, token 7\n");
}

TEST(SummaryTest, WhatWasNotMeasuredIsADash) {
  v1::GenerateComplete complete = Complete();
  complete.mutable_usage()->set_completion_tokens(1);
  complete.clear_speculation();

  EXPECT_THAT(Summary(complete), HasSubstr("tokens per second     -\n"));
  EXPECT_THAT(Summary(complete), HasSubstr("mean accepted tokens  -\n"));
}

TEST(SummaryTest, AStopStringIsOnOneLine) {
  v1::GenerateComplete complete = Complete();
  complete.set_matched_stop_str("\n\"");

  EXPECT_THAT(Summary(complete), HasSubstr("stop, \"\\n\\\"\"\n"));
}

v1::Speculation Chosen(uint32_t off, uint32_t chain, uint32_t tree) {
  v1::Speculation speculation;
  speculation.set_off_rounds(off);
  speculation.set_chain_rounds(chain);
  speculation.set_tree_rounds(tree);
  return speculation;
}

TEST(ChosenTextTest, SaysWhatWasVerifiedAndWhyNot) {
  v1::Speculation speculation = Chosen(61, 0, 3);
  speculation.set_off_reason(v1::SPECULATION_OFF_REASON_NOT_WORTH_IT);
  speculation.set_accepted_drafts(6);
  speculation.set_promised_tokens(7.5);

  EXPECT_EQ(ChosenText(speculation),
            "off in 61 (not worth it on this device), tree in 3 of 64 rounds; "
            "2.00 drafts accepted of 2.50 promised a round");
}

TEST(ChosenTextTest, WhatDidNotHappenIsNotSaid) {
  EXPECT_EQ(ChosenText(Chosen(0, 0, 0)), "");
  EXPECT_EQ(ChosenText(Chosen(1, 0, 0)),
            "off in 1 (no reason given) of 1 round");
  EXPECT_EQ(ChosenText(Chosen(0, 2, 0)),
            "chain in 2 of 2 rounds; "
            "0.00 drafts accepted of 0.00 promised a round");
}

TEST(ChosenTextTest, EveryReasonHasWordsOfItsOwn) {
  std::set<std::string> words;
  for (int i = 0; i < v1::SpeculationOffReason_ARRAYSIZE; ++i) {
    words.insert(OffReasonText(static_cast<v1::SpeculationOffReason>(i)));
  }
  EXPECT_EQ(words.size(), v1::SpeculationOffReason_ARRAYSIZE);
}

TEST(SummaryTest, EndsWithWhatWasChosen) {
  v1::GenerateComplete complete = Complete();
  *complete.mutable_speculation() = Chosen(0, 0, 2);

  EXPECT_THAT(Summary(complete),
              HasSubstr("\nspeculation           tree in 2"));
}

TEST(ProgressTest, TheRateIsOfWhatCameAfterTheFirst) {
  EXPECT_EQ(Progress(1, 0, 0.0), "1 token, - tokens/s");
  EXPECT_EQ(Progress(21, 20, 0.5), "21 tokens, 40.0 tokens/s");
}

TEST(SpeculationTextTest, TellsTheShapeUnlessItIsOff) {
  v1::SpeculationPolicy policy;
  policy.set_mode(v1::SPECULATION_MODE_TREE);
  policy.set_top_k(4);
  policy.set_depth(8);
  policy.set_nodes(32);
  EXPECT_EQ(SpeculationText(policy), "tree, top-k 4, depth 8, 32 nodes");

  policy.set_policy(v1::BUDGET_POLICY_GOODPUT);
  EXPECT_EQ(SpeculationText(policy),
            "goodput, at most tree, top-k 4, depth 8, 32 nodes");

  policy.set_mode(v1::SPECULATION_MODE_OFF);
  EXPECT_EQ(SpeculationText(policy), "off");
}

}  // namespace
}  // namespace bole
