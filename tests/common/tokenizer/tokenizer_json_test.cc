#include "common/tokenizer/tokenizer_json.h"

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole {
namespace {

using nlohmann::json;
using testing::Added;
using testing::ByteLevel;
using testing::Split;
using testing::TinyJson;

// TinyJson with the value at `pointer` replaced.
json With(const char* pointer, json value) {
  json document = TinyJson();
  document[json::json_pointer(pointer)] = std::move(value);
  return document;
}

// `message` is the start of the message.
void ExpectError(const json& document, absl::StatusCode code,
                 const std::string& message) {
  const absl::Status status = ParseTokenizerJson(document.dump()).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_TRUE(absl::StartsWith(status.message(), message)) << status;
}
void ExpectInvalid(const json& document, const std::string& message) {
  ExpectError(document, absl::StatusCode::kInvalidArgument, message);
}
void ExpectUnsupported(const json& document, const std::string& message) {
  ExpectError(document, absl::StatusCode::kUnimplemented, message);
}

TEST(TokenizerJsonTest, ReadsEveryPart) {
  const absl::StatusOr<TokenizerSpec> spec =
      ParseTokenizerJson(TinyJson().dump());

  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->vocab.size(), 260u);
  ASSERT_EQ(spec->merges.size(), 4u);
  EXPECT_EQ(spec->merges[2].left, 256);
  EXPECT_EQ(spec->merges[2].right, 'c');
  EXPECT_EQ(spec->merges[2].merged, 258);
  ASSERT_EQ(spec->added_tokens.size(), 3u);
  EXPECT_EQ(spec->added_tokens[1].content, "<t>");
  EXPECT_FALSE(spec->added_tokens[1].is_special);
  EXPECT_EQ(spec->split_pattern, testing::kQwenSplit);
  EXPECT_TRUE(spec->normalize_nfc);
  EXPECT_FALSE(spec->ignore_merges);
}

TEST(TokenizerJsonTest, MergesMayBePairs) {
  const absl::StatusOr<TokenizerSpec> spec = ParseTokenizerJson(
      With("/model/merges",
           json::array({json::array({"b", "c"}), json::array({"\u0120", "a"})}))
          .dump());

  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->merges.size(), 2u);
  EXPECT_EQ(spec->merges[1].merged, 259);
}

TEST(TokenizerJsonTest, PartsThatChangeNothingAreAccepted) {
  for (const auto& [pointer, value] : std::vector<std::pair<const char*, json>>{
           {"/normalizer", nullptr},
           {"/pre_tokenizer", ByteLevel()},
           {"/pre_tokenizer/pretokenizers", json::array({ByteLevel()})},
           {"/post_processor", ByteLevel()},
           {"/added_tokens", nullptr},
           {"/truncation", {{"max_length", 3}}},
           {"/model/dropout", 0.0},
           {"/model/continuing_subword_prefix", ""},
           {"/model/byte_fallback", false},
           {"/model/merges", json::array()}}) {
    const absl::Status status =
        ParseTokenizerJson(With(pointer, value).dump()).status();
    EXPECT_TRUE(status.ok()) << pointer << ": " << status;
  }
}

TEST(TokenizerJsonTest, AnAddedTokenMayRepeatAVocabularyEntry) {
  EXPECT_TRUE(
      ParseTokenizerJson(
          With("/added_tokens", json::array({Added("abc", 258, true)})).dump())
          .ok());
}

TEST(TokenizerJsonTest, WhatIsNotSupportedIsNamed) {
  ExpectUnsupported(With("/normalizer/type", "NFKC"),
                    "normalizer.type: \"NFKC\" is not supported");
  ExpectUnsupported(With("/pre_tokenizer", nullptr), "pre_tokenizer: null");
  ExpectUnsupported(With("/pre_tokenizer/type", "Metaspace"),
                    "pre_tokenizer.type: \"Metaspace\"");
  ExpectUnsupported(With("/pre_tokenizer/pretokenizers/0/type", "Digits"),
                    "pre_tokenizer.pretokenizers[0].type: \"Digits\"");
  ExpectUnsupported(With("/pre_tokenizer/pretokenizers",
                         {Split("a"), Split("b"), ByteLevel()}),
                    "pre_tokenizer.pretokenizers: an array of 3 elements");
  ExpectUnsupported(With("/pre_tokenizer/pretokenizers/0/behavior", "Removed"),
                    "pre_tokenizer.pretokenizers[0].behavior: \"Removed\"");
  ExpectUnsupported(With("/pre_tokenizer/pretokenizers/0/invert", true),
                    "pre_tokenizer.pretokenizers[0].invert: true");
  ExpectUnsupported(
      With("/pre_tokenizer/pretokenizers/0/pattern", {{"String", " "}}),
      "pre_tokenizer.pretokenizers[0].pattern.String: \" \"");
  ExpectUnsupported(With("/pre_tokenizer/pretokenizers/1/use_regex", true),
                    "pre_tokenizer.pretokenizers[1].use_regex: true");
  ExpectUnsupported(
      With("/pre_tokenizer/pretokenizers/1/add_prefix_space", true),
      "pre_tokenizer.pretokenizers[1].add_prefix_space: true");
  ExpectUnsupported(With("/post_processor", {{"type", "TemplateProcessing"}}),
                    "post_processor.type: \"TemplateProcessing\"");
  ExpectUnsupported(With("/decoder/type", "WordPiece"),
                    "decoder.type: \"WordPiece\"");
  ExpectUnsupported(With("/model/type", "Unigram"), "model.type: \"Unigram\"");
  ExpectUnsupported(With("/model/dropout", 0.5), "model.dropout: 0.5");
  ExpectUnsupported(With("/model/unk_token", "<unk>"), "model.unk_token");
  ExpectUnsupported(With("/model/byte_fallback", true), "model.byte_fallback");
  for (const char* option : {"single_word", "lstrip", "rstrip", "normalized"}) {
    json added = Added("<x>", 400, true);
    added[option] = true;
    ExpectUnsupported(With("/added_tokens", json::array({added})),
                      std::string("added_tokens[0].") + option + ": true");
  }
}

TEST(TokenizerJsonTest, WrongTypesAreErrorsThatNameTheField) {
  ExpectInvalid(json::array(), "tokenizer.json: must be an object");
  ExpectInvalid(With("/normalizer", 3), "normalizer: must be an object");
  ExpectInvalid(With("/normalizer/type", 3),
                "normalizer.type: must be a string, but it is 3");
  ExpectInvalid(With("/pre_tokenizer/pretokenizers", "x"),
                "pre_tokenizer.pretokenizers: must be an array");
  ExpectInvalid(With("/pre_tokenizer/pretokenizers/0/pattern", "x"),
                "pre_tokenizer.pretokenizers[0].pattern: must be an object");
  ExpectInvalid(With("/pre_tokenizer/pretokenizers/0/pattern/Regex", ""),
                "pre_tokenizer.pretokenizers[0].pattern.Regex: must not be");
  ExpectInvalid(With("/model", nullptr), "model: must be an object");
  ExpectInvalid(With("/model/type", nullptr), "model.type: must be a string");
  ExpectInvalid(With("/model/vocab", json::array()),
                "model.vocab: must be an object");
  ExpectInvalid(With("/model/merges", nullptr), "model.merges: must be an arr");
  ExpectInvalid(With("/model/ignore_merges", 1),
                "model.ignore_merges: must be true or false, but it is 1");
  ExpectInvalid(With("/added_tokens", "x"), "added_tokens: must be an array");
  ExpectInvalid(With("/added_tokens", {3}), "added_tokens[0]: must be an obj");
  ExpectInvalid(With("/added_tokens/1/content", ""),
                "added_tokens[1].content: must have 1 to 256 bytes");
  ExpectInvalid(With("/added_tokens/1/content", std::string(257, 'x')),
                "added_tokens[1].content: must have 1 to 256 bytes");
  ExpectInvalid(With("/added_tokens/1/special", "yes"),
                "added_tokens[1].special: must be true or false");
}

TEST(TokenizerJsonTest, IdsMustBeSmallAndUnique) {
  for (const json& id : {json(-1), json(1 << 20), json(1e3), json("7"),
                         json(18446744073709551615u), json(nullptr)}) {
    ExpectInvalid(With("/model/vocab/abc", id),
                  "model.vocab[\"abc\"]: must be an integer from 0 to 1048575");
    ExpectInvalid(With("/added_tokens/0/id", id),
                  "added_tokens[0].id: must be an integer from 0 to 1048575");
  }
  ExpectInvalid(With("/model/vocab/abc", 'a'),
                "model.vocab[\"abc\"]: must not be the id of another token, "
                "but it is 97");
  ExpectInvalid(With("/added_tokens/0/id", 258),
                "added_tokens[0].id: must not be the id of another token");
  ExpectInvalid(With("/added_tokens/0/id", 301),
                "added_tokens[1].id: must not be the id of another token");
  ExpectInvalid(With("/added_tokens", json::array({Added("abc", 400, true)})),
                "added_tokens[0].id: must not be the id of another token");
  ExpectInvalid(With("/added_tokens/2/content", "<s>"),
                "added_tokens[2].content: must not come twice");
}

TEST(TokenizerJsonTest, MergesMustNameTokens) {
  const auto with_merge = [](json merge) {
    return With("/model/merges/3", std::move(merge));
  };
  ExpectInvalid(with_merge("zz a"),
                "model.merges[3]: \"zz\" is not a token of model.vocab");
  ExpectInvalid(with_merge("a c"), "model.merges[3]: \"ac\" is not a token");
  ExpectInvalid(with_merge("ab"), "model.merges[3]: must be two tokens with");
  ExpectInvalid(with_merge("a b c"), "model.merges[3]: must be two tokens");
  ExpectInvalid(with_merge(""), "model.merges[3]: must be two tokens");
  ExpectInvalid(with_merge(7),
                "model.merges[3]: must be a string, but it is 7");
  ExpectInvalid(with_merge({"a"}), "model.merges[3]: must be a pair");
  ExpectInvalid(with_merge({"a", "b", "c"}), "model.merges[3]: must be a pair");
  ExpectInvalid(with_merge({"a", 1}),
                "model.merges[3][1]: must be a string, but it is 1");
}

TEST(TokenizerJsonTest, TextThatIsNotJsonIsAnError) {
  for (const std::string& text :
       {std::string(""), std::string("{"), std::string(1'000'000, '['),
        std::string("{\"model\":\xFF}"), std::string("{\"a\":1,\"a\":2}")}) {
    EXPECT_EQ(ParseTokenizerJson(text).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(TokenizerJsonTest, NoPrefixOfAFileIsAFile) {
  const std::string text = TinyJson().dump();
  for (size_t size = 0; size < text.size(); size += 7) {
    EXPECT_EQ(ParseTokenizerJson(text.substr(0, size)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace bole
