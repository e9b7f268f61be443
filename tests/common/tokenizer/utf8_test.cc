#include "common/tokenizer/utf8.h"

#include <cstdint>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(Utf8Test, ReplacesTheLongestStartOfACharacterByOneMark) {
  struct Case {
    const char* bytes;
    const char* want;
  };
  const Case cases[] = {
      {"a\xFF z", "a\uFFFD z"},
      {"\xC3\x28", "\uFFFD("},                 // Two bytes promised, one given.
      {"\xE2\x82", "\uFFFD"},                  // Cut at the end of the text.
      {"\xE2\x82q", "\uFFFDq"},                // Cut by another character.
      {"\xF0\x9F\x99\xF0", "\uFFFD\uFFFD"},    // Cut by another start.
      {"\xC0\x80", "\uFFFD\uFFFD"},            // Overlong.
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},  // A surrogate.
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // Above U+10FFFF.
      {"\x80\x80", "\uFFFD\uFFFD"},
  };
  for (const Case& c : cases) EXPECT_EQ(ReplaceInvalidUtf8(c.bytes), c.want);
}

TEST(Utf8Test, KeepsAnIncompleteEndForLater) {
  std::string text;

  const size_t done = AppendCompleteUtf8("ok \xF0\x9F\x99", &text);

  EXPECT_EQ(done, 3u);
  EXPECT_EQ(text, "ok ");
}

TEST(Utf8Test, EveryCodePointSurvivesARoundTrip) {
  for (uint32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    AppendCodePoint(code_point, &text);
    const Utf8Scan scan = ScanUtf8(text);
    ASSERT_EQ(scan.kind, Utf8Scan::Kind::kValid) << code_point;
    ASSERT_EQ(scan.size, static_cast<int>(text.size())) << code_point;
    ASSERT_EQ(DecodeCodePoint(text, scan.size), code_point);
  }
}

TEST(Utf8Test, WhatIsReplacedIsValidAndReplacedOnlyOnce) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    std::string bytes(random() % 12, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());

    const std::string text = ReplaceInvalidUtf8(bytes);

    EXPECT_TRUE(IsValidUtf8(text));
    EXPECT_EQ(ReplaceInvalidUtf8(text), text);
    EXPECT_EQ(IsValidUtf8(bytes), text == bytes);
  }
}

}  // namespace
}  // namespace bole
