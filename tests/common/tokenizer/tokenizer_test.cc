#include "common/tokenizer/tokenizer.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole {
namespace {

using testing::EncodeOrDie;
using testing::MakeTinyTokenizer;
using testing::MakeTokenizer;
using testing::TinyJson;
using Ids = std::vector<int32_t>;

TEST(TokenizerTest, MergesInsideOfPiecesOnly) {
  const auto tokenizer = MakeTinyTokenizer();

  EXPECT_EQ(EncodeOrDie(*tokenizer, "abc"), (Ids{'a', 257}));
  EXPECT_EQ(EncodeOrDie(*tokenizer, "ab ab"), (Ids{256, ' ', 256}));
  EXPECT_EQ(EncodeOrDie(*tokenizer, "x a"), (Ids{'x', 259}));
  // The split keeps the first two spaces apart from the third.
  EXPECT_EQ(EncodeOrDie(*tokenizer, "   a"), (Ids{' ', ' ', 259}));
  EXPECT_EQ(EncodeOrDie(*tokenizer, ""), Ids{});
}

TEST(TokenizerTest, AddedTokensAreTakenBeforeAnythingElse) {
  const auto tokenizer = MakeTinyTokenizer();

  EXPECT_EQ(EncodeOrDie(*tokenizer, "ab<s>c<t>"), (Ids{256, 300, 'c', 301}));
  EXPECT_EQ(EncodeOrDie(*tokenizer, "<s>xa"), (Ids{302, 'a'}));
  EXPECT_EQ(EncodeOrDie(*tokenizer, "<s><s>"), (Ids{300, 300}));
}

TEST(TokenizerTest, SpecialTokensCanBeReadAsText) {
  const auto tokenizer = MakeTinyTokenizer();

  EXPECT_EQ(EncodeOrDie(*tokenizer, "<s><t>", {.parse_special_tokens = false}),
            (Ids{'<', 's', '>', 301}));
}

TEST(TokenizerTest, EachStretchBetweenAddedTokensIsNormalized) {
  const auto tokenizer = MakeTinyTokenizer();

  EXPECT_EQ(EncodeOrDie(*tokenizer, "e\u0301"), (Ids{0xC3, 0xA9}));
  // A mark after a token has nothing to combine with.
  EXPECT_EQ(EncodeOrDie(*tokenizer, "<t>\u0301"), (Ids{301, 0xCC, 0x81}));
}

TEST(TokenizerTest, WithoutANormalizerTextStaysAsItIs) {
  nlohmann::json json = TinyJson();
  json["normalizer"] = nullptr;
  const auto tokenizer = MakeTokenizer(json);

  EXPECT_EQ(EncodeOrDie(*tokenizer, "e\u0301"), (Ids{'e', 0xCC, 0x81}));
}

TEST(TokenizerTest, WithoutASplitTextIsOnePiece) {
  nlohmann::json json = TinyJson();
  json["pre_tokenizer"] = testing::ByteLevel();
  const auto tokenizer = MakeTokenizer(json);

  EXPECT_EQ(EncodeOrDie(*tokenizer, "   a"), (Ids{' ', ' ', 259}));
  EXPECT_EQ(EncodeOrDie(*tokenizer, "1 a"), (Ids{'1', 259}));
}

TEST(TokenizerTest, IgnoreMergesTakesWholePiecesFromTheVocabulary) {
  nlohmann::json json = TinyJson();
  json["model"]["ignore_merges"] = true;
  const auto tokenizer = MakeTokenizer(json);

  EXPECT_EQ(EncodeOrDie(*tokenizer, "abc"), (Ids{258}));
  EXPECT_EQ(EncodeOrDie(*tokenizer, "abcx"), (Ids{'a', 257, 'x'}));
}

TEST(TokenizerTest, InvalidUtf8IsReadAsReplacementCharacters) {
  const auto tokenizer = MakeTinyTokenizer();

  EXPECT_EQ(EncodeOrDie(*tokenizer, "a\xFF"), (Ids{'a', 0xEF, 0xBF, 0xBD}));
}

TEST(TokenizerTest, DecodeReplacesWhatIsNotUtf8) {
  const auto tokenizer = MakeTinyTokenizer();

  EXPECT_EQ(tokenizer->Decode(Ids{0xC3, 0xA9}), "\u00E9");
  EXPECT_EQ(tokenizer->Decode(Ids{0xC3, 'a', 0xA9}), "\uFFFDa\uFFFD");
  EXPECT_EQ(tokenizer->Decode(Ids{0xE2, 0x82}), "\uFFFD");
}

TEST(TokenizerTest, DecodeOfIdsWithoutATokenIsEmpty) {
  const auto tokenizer = MakeTinyTokenizer();

  EXPECT_EQ(tokenizer->num_ids(), 303);
  EXPECT_EQ(tokenizer->Decode(Ids{'a', 280, -1, 303, 2147483647, 'b'}), "ab");
  EXPECT_EQ(tokenizer->TokenBytes(280), "");
}

TEST(TokenizerTest, DecodeHidesOnlySpecialTokens) {
  const auto tokenizer = MakeTinyTokenizer();
  const Ids ids = {300, 'a', 301, 302};

  EXPECT_EQ(tokenizer->Decode(ids), "<s>a<t><s>x");
  EXPECT_EQ(tokenizer->Decode(ids, /*skip_special_tokens=*/true), "a<t>");
  EXPECT_TRUE(tokenizer->IsSpecial(300));
  EXPECT_FALSE(tokenizer->IsSpecial(301));
  EXPECT_FALSE(tokenizer->IsSpecial(-5));
}

TEST(TokenizerTest, FindIsTheInverseOfTokenBytes) {
  const auto tokenizer = MakeTinyTokenizer();

  EXPECT_EQ(tokenizer->Find("<s>"), 300);
  EXPECT_EQ(tokenizer->Find(" a"), 259);
  EXPECT_EQ(tokenizer->Find("\xC3"), 0xC3);
  EXPECT_EQ(tokenizer->Find("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer->Find(""), std::nullopt);
  for (int id = 0; id < tokenizer->num_ids(); ++id) {
    const std::string_view bytes = tokenizer->TokenBytes(id);
    if (bytes.empty()) continue;
    EXPECT_EQ(tokenizer->Find(bytes), id);
  }
}

TEST(TokenizerTest, AddedTokensAreTextAndNotTheByteAlphabet) {
  // U+00E9 is the alphabet's name of byte 0xE9, which is not its UTF-8.
  nlohmann::json json = TinyJson();
  json["added_tokens"] =
      nlohmann::json::array({testing::Added("\u00E9!", 300, true)});
  const auto tokenizer = MakeTokenizer(json);

  EXPECT_EQ(tokenizer->Decode(EncodeOrDie(*tokenizer, "\u00E9!")), "\u00E9!");
}

TEST(TokenizerTest, AMissingByteIsAnErrorOfTheTextThatNeedsIt) {
  nlohmann::json json = TinyJson();
  json["model"]["vocab"].erase("z");
  const auto tokenizer = MakeTokenizer(json);

  EXPECT_TRUE(tokenizer->Encode("abc").ok());
  EXPECT_EQ(tokenizer->Encode("xyz").status().message(),
            "the vocabulary has no token for byte 0x7a");
}

TEST(TokenizerTest, TextHasALimit) {
  const auto tokenizer = MakeTinyTokenizer();

  EXPECT_EQ(tokenizer->Encode(std::string(kMaxEncodeBytes + 1, ' '))
                .status()
                .message(),
            "text has 16777217 bytes; the limit is 16777216");
}

TEST(TokenizerTest, ErrorsOfAFileNameIt) {
  const std::string path = ::testing::TempDir() + "/broken_tokenizer.json";
  std::ofstream(path) << R"({"model": {"type": "WordLevel"},
      "pre_tokenizer": {"type": "ByteLevel", "use_regex": false,
                        "add_prefix_space": false},
      "decoder": {"type": "ByteLevel"}})";

  const absl::Status status = Tokenizer::Load(path).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            path + ": model.type: \"WordLevel\" is not supported");
  std::remove(path.c_str());
  EXPECT_EQ(Tokenizer::Load(path).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Tokenizer::Load(::testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bole
