#include "common/chat/string_literal.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole::jinja {
namespace {

std::string UnescapeOrDie(std::string_view quoted) {
  const auto text = Unescape(quoted);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

TEST(StringLiteralTest, ResolvesPythonsEscapes) {
  EXPECT_EQ(UnescapeOrDie(R"(a\n\t\r\\\'\"\a\b\f\v)"), "a\n\t\r\\'\"\a\b\f\v");
  EXPECT_EQ(UnescapeOrDie(R"(\x41\u00e9\U0001F642)"), "A\u00E9\U0001F642");
  EXPECT_EQ(UnescapeOrDie(R"(\101\1012\7)"), "AA2\a");
  EXPECT_EQ(UnescapeOrDie("a\\\nb"), "ab");
}

TEST(StringLiteralTest, UnknownEscapesStay) {
  EXPECT_EQ(UnescapeOrDie(R"(\d\q\ )"), R"(\d\q\ )");
}

TEST(StringLiteralTest, BadEscapesAreErrors) {
  for (const char* quoted :
       {R"(\x)", R"(\x4)", R"(\xg0)", R"(\u12)", R"(\uD800)", R"(\U00110000)",
        R"(\u-123)", R"(\u+123)"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Unescape(quoted).status())) << quoted;
  }
  EXPECT_TRUE(absl::IsUnimplemented(Unescape(R"(\N{DASH})").status()));
}

}  // namespace
}  // namespace bole::jinja
