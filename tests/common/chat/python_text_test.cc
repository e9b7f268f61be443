#include "common/chat/python_text.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace bole::jinja {
namespace {

using Parts = std::vector<std::string_view>;

TEST(PythonTextTest, WhiteSpaceIsPythons) {
  std::string spaces;
  for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (IsPythonSpace(code_point)) spaces += std::to_string(code_point) + " ";
  }
  EXPECT_EQ(spaces,
            "9 10 11 12 13 28 29 30 31 32 133 160 5760 8192 8193 8194 8195 "
            "8196 8197 8198 8199 8200 8201 8202 8232 8233 8239 8287 12288 ");
}

TEST(PythonTextTest, StripTakesWholeCharacters) {
  EXPECT_EQ(Strip(" \u3000a b\u00A0\n"), "a b");
  EXPECT_EQ(Strip("\u00E9a\u00E9", "\u00E9"), "a");
  // A byte of the set's characters is not a character of the set.
  EXPECT_EQ(Strip("\u00E8a", "\u00E9"), "\u00E8a");
  EXPECT_EQ(Strip("xax", "x", {.right = false}), "ax");
  EXPECT_EQ(Strip("xax", "x", {.left = false}), "xa");
  EXPECT_EQ(Strip("   "), "");
  EXPECT_EQ(Strip(""), "");
}

TEST(PythonTextTest, Split) {
  EXPECT_EQ(Split("a,b,,c", ",", -1), (Parts{"a", "b", "", "c"}));
  EXPECT_EQ(Split("a,b,c", ",", 1), (Parts{"a", "b,c"}));
  EXPECT_EQ(Split("aaa", "aa", -1), (Parts{"", "a"}));
  EXPECT_EQ(Split("", ",", -1), (Parts{""}));
  EXPECT_EQ(Split(" a \u2003 b ", std::nullopt, -1), (Parts{"a", "b"}));
  EXPECT_EQ(Split(" a b  c ", std::nullopt, 1), (Parts{"a", "b  c "}));
  EXPECT_EQ(Split("  ", std::nullopt, -1), Parts{});
}

TEST(PythonTextTest, CountsCharactersAndNotBytes) {
  EXPECT_EQ(NumCharacters("h\u00E9\U0001F642"), 3u);
  EXPECT_EQ(Characters("h\u00E9\U0001F642"),
            (Parts{"h", "\u00E9", "\U0001F642"}));
  EXPECT_EQ(OffsetOfCharacter("h\u00E9x", 2), 3u);
  EXPECT_EQ(OffsetOfCharacter("h\u00E9x", 9), 4u);
}

TEST(PythonTextTest, FindIsLinear) {
  const std::string text(4'000'000, 'a');

  // The naive search would take 4e12 steps.
  EXPECT_EQ(Find(text, std::string(2'000'000, 'a') + "b"),
            std::string_view::npos);
  EXPECT_EQ(Find("abcabc", "bc", 2), 4u);
  EXPECT_EQ(Find("abc", ""), 0u);
}

}  // namespace
}  // namespace bole::jinja
