#include "common/tokenizer/split.h"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces SplitOrDie(std::string_view pattern, std::string_view text) {
  const absl::StatusOr<SplitPattern> compiled = SplitPattern::Compile(pattern);
  BOLE_CHECK(compiled.ok());
  Pieces pieces;
  BOLE_CHECK(compiled->Split(text, &pieces).ok());
  return pieces;
}

Pieces QwenSplit(std::string_view text) {
  return SplitOrDie(testing::kQwenSplit, text);
}

TEST(SplitTest, QwenPatternCutsAsSpecified) {
  EXPECT_EQ(QwenSplit("'save"), (Pieces{"'s", "ave"}));
  EXPECT_EQ(QwenSplit("it'S"), (Pieces{"it", "'S"}));
  EXPECT_EQ(QwenSplit("(abc"), (Pieces{"(abc"}));
  EXPECT_EQ(QwenSplit("((abc"), (Pieces{"((", "abc"}));
  EXPECT_EQ(QwenSplit("x 42"), (Pieces{"x", " ", "4", "2"}));
  EXPECT_EQ(QwenSplit("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(QwenSplit("a \n\n  b"), (Pieces{"a", " \n\n", " ", " b"}));
  EXPECT_EQ(QwenSplit(" !?\r\nx"), (Pieces{" !?\r\n", "x"}));
  EXPECT_EQ(QwenSplit("end  "), (Pieces{"end", "  "}));
  EXPECT_EQ(QwenSplit("\u0915\u094D"), (Pieces{"\u0915\u094D"}));  // With mark.
}

TEST(SplitTest, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_EQ(SplitOrDie("\\s", "a\u00A0b\u3000c"),
            (Pieces{"a", "\u00A0", "b", "\u3000", "c"}));
  // The Mongolian vowel separator is none, and \S means its complement.
  EXPECT_EQ(SplitOrDie("\\s", "a\u180Eb"), (Pieces{"a\u180Eb"}));
  EXPECT_EQ(SplitOrDie("[\\S]+", "a\u180E b"), (Pieces{"a\u180E", " ", "b"}));
  EXPECT_EQ(SplitOrDie("\\\\s", "a\\sb"), (Pieces{"a", "\\s", "b"}));
}

TEST(SplitTest, TextBetweenMatchesIsAPiece) {
  EXPECT_EQ(SplitOrDie("[0-9]+", "ab12cd3"), (Pieces{"ab", "12", "cd", "3"}));
  EXPECT_EQ(SplitOrDie("z", "abc"), (Pieces{"abc"}));
  EXPECT_EQ(SplitOrDie("z", ""), Pieces{});
}

TEST(SplitTest, EmptyMatchesAndMovedStartsLoseNoText) {
  EXPECT_EQ(SplitOrDie("x*", "ab"), (Pieces{"a", "b"}));
  EXPECT_EQ(SplitOrDie("(?=c)", "abcd"), (Pieces{"ab", "cd"}));
  EXPECT_EQ(SplitOrDie("a\\Kb", "abab"), (Pieces{"a", "b", "a", "b"}));
  EXPECT_EQ(SplitOrDie("$", "\u00E9\u00E9"), (Pieces{"\u00E9\u00E9"}));
}

TEST(SplitTest, ABadPatternIsAnErrorThatShowsIt) {
  for (const std::string& pattern :
       {std::string("("), std::string("[a"), std::string("a{2,1}"),
        std::string("\\p{Nonsense}"), std::string("\\"), std::string("\\C"),
        std::string(100'000, 'a'), std::string(3000, '('),
        std::string("((((a{1000}){1000}){1000}){1000})")}) {
    const absl::Status status = SplitPattern::Compile(pattern).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
  EXPECT_EQ(SplitPattern::Compile("ab(").status().message(),
            "split pattern does not compile: missing closing parenthesis at "
            "byte 3 of ab(");
}

TEST(SplitTest, AHostilePatternFailsInBoundedTime) {
  const std::string text = std::string(5000, 'a') + "!";
  for (const char* pattern :
       {"(a+)+$", "(a|aa)+$", "(a|a?)+$", "^(([a-z])+.)+[A-Z]"}) {
    SCOPED_TRACE(pattern);
    const absl::StatusOr<SplitPattern> compiled =
        SplitPattern::Compile(pattern);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const auto start = std::chrono::steady_clock::now();

    Pieces pieces;
    const absl::Status status = compiled->Split(text, &pieces);

    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::minutes(1));
  }
}

TEST(SplitTest, LongRunsStayWithinTheBudget) {
  for (const char* unit : {" ", "a", "!", "7", "\n", "\u00E9", " a", "a ",
                           "  \n", "\u3000", "'", "\u0301"}) {
    SCOPED_TRACE(unit);
    std::string text;
    while (text.size() < 1'000'000) text += unit;

    const Pieces pieces = QwenSplit(text);

    size_t total = 0;
    for (const std::string_view piece : pieces) total += piece.size();
    EXPECT_EQ(total, text.size());
  }
}

}  // namespace
}  // namespace bole
