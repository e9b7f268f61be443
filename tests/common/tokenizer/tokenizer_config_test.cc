#include "common/tokenizer/tokenizer_config.h"

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

std::string EosOf(std::string_view json) {
  const absl::StatusOr<TokenizerConfig> config = ParseTokenizerConfig(json);
  EXPECT_TRUE(config.ok()) << json << ": " << config.status();
  return config.ok() ? config->eos_token : "";
}

std::string ErrorOf(std::string_view json) {
  const absl::Status status = ParseTokenizerConfig(json).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(status.message());
}

TEST(TokenizerConfigTest, TheEosTokenIsATextOrAnAddedToken) {
  EXPECT_EQ(EosOf(R"({"eos_token": "<|im_end|>"})"), "<|im_end|>");
  EXPECT_EQ(EosOf(R"({"eos_token": {"__type": "AddedToken",
                                    "content": "</s>", "lstrip": false}})"),
            "</s>");
  EXPECT_EQ(EosOf(R"({"eos_token": null})"), "");
  EXPECT_EQ(EosOf(R"({"bos_token": "<s>"})"), "");
}

TEST(TokenizerConfigTest, AddedTokensAreSortedById) {
  const absl::StatusOr<TokenizerConfig> config = ParseTokenizerConfig(
      R"({"added_tokens_decoder": {
            "248044": {"content": "<|endoftext|>", "special": true},
            "99": {"content": "<think>", "special": false}}})");

  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->added_tokens.size(), 2u);
  EXPECT_EQ(config->added_tokens[0].id, 99);
  EXPECT_EQ(config->added_tokens[0].content, "<think>");
  EXPECT_FALSE(config->added_tokens[0].is_special);
  EXPECT_EQ(config->added_tokens[1].id, 248044);
  EXPECT_TRUE(config->added_tokens[1].is_special);
}

TEST(TokenizerConfigTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(ErrorOf("[]"), "is not a JSON object");
  EXPECT_EQ(ErrorOf(R"({"eos_token": 7})"),
            "eos_token: must be a string, but it is 7");
  EXPECT_EQ(ErrorOf(R"({"eos_token": {"text": "x"}})"),
            "eos_token.content: must be a string, but it is null");
  EXPECT_EQ(ErrorOf(R"({"added_tokens_decoder": 1})"),
            "added_tokens_decoder: must be an object, but it is 1");
  for (const std::string id : {"-1", "x", "1048576", "99999999999999999999"}) {
    EXPECT_EQ(ErrorOf(R"({"added_tokens_decoder": {")" + id + R"(": {}}})"),
              "added_tokens_decoder[\"" + id +
                  "\"]: the name must be an id from 0 to 1048575");
  }
  EXPECT_EQ(ErrorOf(R"({"added_tokens_decoder": {"7": "x"}})"),
            "added_tokens_decoder[\"7\"]: must be an object, but it is \"x\"");
}

TEST(TokenizerConfigTest, AMissingFileSaysNothingAndABadOneIsNamed) {
  const absl::StatusOr<TokenizerConfig> demo =
      LoadTokenizerConfig("models/demo");
  const absl::StatusOr<TokenizerConfig> missing =
      LoadTokenizerConfig("no/such/folder");

  ASSERT_TRUE(demo.ok()) << demo.status();
  EXPECT_EQ(demo->eos_token, "<|im_end|>");
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_EQ(missing->eos_token, "");
}

}  // namespace
}  // namespace bole
