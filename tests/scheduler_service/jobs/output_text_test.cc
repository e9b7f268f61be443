#include "scheduler_service/jobs/output_text.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole {
namespace {

using testing::MakeTinyTokenizer;

// Ids 0..255 are bytes, 256 "ab", 257 "bc", 258 "abc", 300 <s> is special.
class OutputTextTest : public ::testing::Test {
 protected:
  OutputText With(std::vector<std::string> stop, bool include = false) {
    params_.stop = std::move(stop);
    params_.include_stop_in_output = include;
    return OutputText(*tokenizer_, params_);
  }

  // What Push() returns for every byte of `bytes`, with '|' between.
  static std::string PushAll(OutputText& text, std::string_view bytes) {
    std::string pushed;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i > 0) pushed += '|';
      pushed += text.Push(static_cast<unsigned char>(bytes[i]));
    }
    return pushed;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  TextParams params_;
};

TEST_F(OutputTextTest, WithoutStopStringsTextComesAtOnce) {
  OutputText text = With({});

  EXPECT_EQ(text.Push(258), "abc");
  EXPECT_EQ(text.Push('d'), "d");
  EXPECT_EQ(text.Finish(), "");
  EXPECT_FALSE(text.matched_stop());
}

TEST_F(OutputTextTest, ACharacterIsNeverSplit) {
  OutputText text = With({});

  EXPECT_EQ(PushAll(text, "\xF0\x9F\x99\x82!"), "|||\U0001F642|!");
  EXPECT_EQ(text.Push(0xE2), "");
  EXPECT_EQ(text.Finish(), "\uFFFD");
}

TEST_F(OutputTextTest, TextThatMayBecomeAStopStringIsHeldUntilItCannot) {
  OutputText text = With({"stop"});

  EXPECT_EQ(PushAll(text, "a sto"), "a| |||");
  EXPECT_EQ(text.Push('r'), "stor");
  EXPECT_FALSE(text.matched_stop());
}

TEST_F(OutputTextTest, AStopStringEndsTheTextBeforeIt) {
  OutputText text = With({"stop"});

  EXPECT_EQ(PushAll(text, "a stop"), "a| ||||");

  EXPECT_EQ(text.matched_stop(), "stop");
  EXPECT_EQ(text.Finish(), "");
}

TEST_F(OutputTextTest, OrBehindItIfItIsIncluded) {
  OutputText text = With({"stop"}, /*include=*/true);

  EXPECT_EQ(PushAll(text, "a stop"), "a| ||||stop");

  EXPECT_EQ(text.matched_stop(), "stop");
  EXPECT_EQ(text.Finish(), "");
}

TEST_F(OutputTextTest, TheTextEndsInsideOfATokenThatGoesOn) {
  OutputText without = With({"ab"});
  EXPECT_EQ(without.Push('x'), "x");
  EXPECT_EQ(without.Push(258), "");
  EXPECT_EQ(without.matched_stop(), "ab");

  OutputText with = With({"ab"}, /*include=*/true);
  EXPECT_EQ(with.Push('x'), "x");
  EXPECT_EQ(with.Push(258), "ab");
  EXPECT_EQ(with.matched_stop(), "ab");
}

TEST_F(OutputTextTest, FinishReleasesWhatWasHeldBack) {
  OutputText text = With({"stop"});
  EXPECT_EQ(PushAll(text, "sto\xC3"), "|||");

  EXPECT_EQ(text.Finish(), "sto\uFFFD");
  EXPECT_FALSE(text.matched_stop());
}

TEST_F(OutputTextTest, AStopStringIsFoundBehindAFalseStartOfItself) {
  OutputText text = With({"aab"});

  EXPECT_EQ(PushAll(text, "aaab"), "||a|");

  EXPECT_EQ(text.matched_stop(), "aab");
}

TEST_F(OutputTextTest, AFalseStartMayGoOnWithAnotherFalseStart) {
  OutputText text = With({"aabaaac"});

  EXPECT_EQ(PushAll(text, "aabaaabaaac"), "||||||aaba||||");

  EXPECT_EQ(text.matched_stop(), "aabaaac");
}

TEST_F(OutputTextTest, AFalseStartOfOneMayHoldAnother) {
  OutputText text = With({"abcx", "bcd"});

  EXPECT_EQ(PushAll(text, "abcd"), "|||a");

  EXPECT_EQ(text.matched_stop(), "bcd");
}

TEST_F(OutputTextTest, TheFirstToBeCompleteWins) {
  OutputText prefix = With({"abcd", "ab"});
  EXPECT_EQ(PushAll(prefix, "ab"), "|");
  EXPECT_EQ(prefix.matched_stop(), "ab");

  OutputText within = With({"abcd", "bc"});
  EXPECT_EQ(within.Push(258), "a");
  EXPECT_EQ(within.matched_stop(), "bc");
}

TEST_F(OutputTextTest, OfThoseThatEndTogetherTheOneThatStartsFirstWins) {
  OutputText text = With({"c", "abc", "bc"});

  EXPECT_EQ(text.Push('x'), "x");
  EXPECT_EQ(text.Push(256), "");
  EXPECT_EQ(text.Push('c'), "");

  EXPECT_EQ(text.matched_stop(), "abc");
}

TEST_F(OutputTextTest, AStopStringOfCharactersThatTokensSplit) {
  OutputText text = With({"\u00E9\U0001F642"});

  EXPECT_EQ(PushAll(text, "e\xC3\xA9\xC3\xA9\xF0\x9F\x99\x82"),
            "e||||\u00E9||||");

  EXPECT_EQ(text.matched_stop(), "\u00E9\U0001F642");
}

TEST_F(OutputTextTest, AStopStringThatIsCompleteTooEarlyEndsNothing) {
  params_.stop = {"aba"};
  OutputText text(*tokenizer_, params_, /*min_tokens=*/4);

  // What it leaves behind may begin the next one.
  EXPECT_EQ(PushAll(text, "aba"), "||ab");
  EXPECT_FALSE(text.matched_stop());
  EXPECT_EQ(text.Push('b'), "");
  EXPECT_EQ(text.Push('a'), "");
  EXPECT_EQ(text.matched_stop(), "aba");
}

TEST_F(OutputTextTest, TheLastTokenThatHasToBeThereMayCompleteAStopString) {
  params_.stop = {"b"};
  OutputText text(*tokenizer_, params_, /*min_tokens=*/2);

  EXPECT_EQ(text.Push('b'), "b");
  EXPECT_EQ(text.Push('b'), "");
  EXPECT_EQ(text.matched_stop(), "b");
}

TEST_F(OutputTextTest, SpecialTokensAreSkippedOrCanStopTheText) {
  OutputText skipped = With({"<s>", "xy"});
  EXPECT_EQ(skipped.Push('x'), "");
  EXPECT_EQ(skipped.Push(300), "");
  EXPECT_FALSE(skipped.matched_stop());
  EXPECT_EQ(skipped.Push('y'), "");
  EXPECT_EQ(skipped.matched_stop(), "xy");

  params_.skip_special_tokens = false;
  OutputText shown = With({"<s>"});
  EXPECT_EQ(shown.Push('x'), "x");
  EXPECT_EQ(shown.Push(300), "");
  EXPECT_EQ(shown.matched_stop(), "<s>");
}

}  // namespace
}  // namespace bole
