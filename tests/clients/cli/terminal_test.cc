#include "clients/cli/terminal.h"

#include <gtest/gtest.h>

namespace bole {
namespace {

TEST(SafeForTerminalTest, TextPasses) {
  const std::string text =
      "tab\there\nna\xC3\xAFve \xE6\xBC\xA2 \xF0\x9F\x98\x80";

  EXPECT_EQ(SafeForTerminal(text), text);
}

TEST(SafeForTerminalTest, ControlCharactersBecomeTheirNumbers) {
  EXPECT_EQ(SafeForTerminal("\033[2J"), "\\x1b[2J");
  EXPECT_EQ(SafeForTerminal("a\rb\bc\007"), "a\\x0db\\x08c\\x07");
  EXPECT_EQ(SafeForTerminal("\x7F"), "\\x7f");
  EXPECT_EQ(SafeForTerminal(std::string_view("\0", 1)), "\\x00");
}

TEST(SafeForTerminalTest, EveryC1ControlIsEscapedAndNothingBeside) {
  EXPECT_EQ(SafeForTerminal("\xC2\x80"), "\\u0080");
  EXPECT_EQ(SafeForTerminal("\xC2\x9B"), "\\u009b");
  EXPECT_EQ(SafeForTerminal("\xC2\x9F"), "\\u009f");
  EXPECT_EQ(SafeForTerminal("\xC2\xA0"), "\xC2\xA0");
}

TEST(SafeForTerminalTest, ABareC1ByteIsNoCharacter) {
  EXPECT_EQ(SafeForTerminal("a\x9B"
                            "b"),
            "a\xEF\xBF\xBD"
            "b");
}

TEST(ColumnAfterTest, CountsColumnsAndNotBytes) {
  EXPECT_EQ(ColumnAfter("abc", 0, 80), 3);
  EXPECT_EQ(ColumnAfter("\xC3\xAF", 3, 80), 4);
  EXPECT_EQ(ColumnAfter("\xE6\xBC\xA2", 0, 80), 2);  // A wide character.
  EXPECT_EQ(ColumnAfter("e\xCC\x81", 0, 80), 1);     // A combining accent.
  EXPECT_EQ(ColumnAfter("a\tb", 0, 80), 9);
  EXPECT_EQ(ColumnAfter("abc\n", 7, 80), 0);
}

TEST(ColumnAfterTest, AFullLineWrapsWithTheNextCharacter) {
  EXPECT_EQ(ColumnAfter("abcd", 0, 4), 4);
  EXPECT_EQ(ColumnAfter("abcde", 0, 4), 1);
  EXPECT_EQ(ColumnAfter("abc\xE6\xBC\xA2", 0, 4), 2);
}

}  // namespace
}  // namespace bole
