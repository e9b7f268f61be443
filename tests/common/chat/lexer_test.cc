#include "common/chat/lexer.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace bole::jinja {
namespace {

using Kind = Token::Kind;

// Tokens as "text@line", with tags as %( and ) and expressions as {( and ).
std::vector<std::string> Lex(std::string_view source) {
  const absl::StatusOr<std::vector<Token>> tokens = Tokenize(source);
  if (!tokens.ok()) return {tokens.status().ToString()};
  std::vector<std::string> out;
  for (const Token& token : *tokens) {
    std::string text = token.text;
    if (token.kind == Kind::kTagBegin) text = "%(";
    if (token.kind == Kind::kExprBegin) text = "{(";
    if (token.kind == Kind::kTagEnd || token.kind == Kind::kExprEnd) text = ")";
    if (token.kind == Kind::kEnd) text = "END";
    out.push_back(absl::StrCat(text, "@", token.line));
  }
  return out;
}

using Strings = std::vector<std::string>;

TEST(LexerTest, CutsTagsIntoTokensWithTheirLines) {
  EXPECT_EQ(Lex("a\n{% if x\n == 1.5 %}\nb"),
            (Strings{"a\n@1", "%(@2", "if@2", "x@2", "==@3", "1.5@3", ")@3",
                     "b@4", "END@4"}));
  EXPECT_EQ(
      Lex("{{a.b[1]|c('x',\"y\")}}"),
      (Strings{"{(@1", "a@1", ".@1", "b@1", "[@1", "1@1", "]@1", "|@1", "c@1",
               "(@1", "x@1", ",@1", "y@1", ")@1", ")@1", "END@1"}));
}

TEST(LexerTest, KnowsTheKindsOfTokens) {
  const auto tokens = Tokenize("{{ a1 2 2.5 1e3 2.e 'x' // }}");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::vector<Kind> kinds;
  for (const Token& token : *tokens) kinds.push_back(token.kind);

  EXPECT_EQ(kinds,
            (std::vector<Kind>{Kind::kExprBegin, Kind::kName, Kind::kInteger,
                               Kind::kFloat, Kind::kFloat, Kind::kInteger,
                               Kind::kOperator, Kind::kName, Kind::kString,
                               Kind::kOperator, Kind::kExprEnd, Kind::kEnd}));
}

TEST(LexerTest, BracketsHideTheEndOfATag) {
  EXPECT_EQ(Lex("{{ {'a':{}} }}"), (Strings{"{(@1", "{@1", "a@1", ":@1", "{@1",
                                            "}@1", "}@1", ")@1", "END@1"}));
}

TEST(LexerTest, WhiteSpaceControl) {
  EXPECT_EQ(Lex("a \n {%- x -%} \n b"),
            (Strings{"a@1", "%(@2", "x@2", ")@2", "b@3", "END@3"}));
  EXPECT_EQ(Lex("a\n  {% x %}\n  {{ y }}\n"),
            (Strings{"a\n@1", "%(@2", "x@2", ")@2", "  @3", "{(@3", "y@3",
                     ")@3", "END@3"}));
  EXPECT_EQ(Lex("a\n  {%+ x +%}\nb"),
            (Strings{"a\n  @1", "%(@2", "x@2", ")@2", "\nb@2", "END@3"}));
}

TEST(LexerTest, CommentsLeaveNothing) {
  EXPECT_EQ(Lex("a{# {{ x }} #}b"), (Strings{"a@1", "b@1", "END@1"}));
  EXPECT_EQ(Lex(" {#- x -#} "), (Strings{"END@1"}));
  EXPECT_EQ(Lex("{##}x{#-#}y"), (Strings{"x@1", "y@1", "END@1"}));
}

TEST(LexerTest, ErrorsNameTheLine) {
  EXPECT_EQ(Lex("\n\n{{ a"), (Strings{"INVALID_ARGUMENT: line 3: tag without "
                                      "end"}));
  EXPECT_EQ(Lex("\n{# a"),
            (Strings{"INVALID_ARGUMENT: line 2: comment without end"}));
  EXPECT_EQ(Lex("{{ 'a }}"),
            (Strings{"INVALID_ARGUMENT: line 1: string without end"}));
  EXPECT_EQ(Lex("{{ 'a\\"),
            (Strings{"INVALID_ARGUMENT: line 1: string without end"}));
  EXPECT_EQ(Lex("{{ \u00E9 }}"),
            (Strings{"INVALID_ARGUMENT: line 1: unexpected character \u00E9"}));
  EXPECT_EQ(Lex("\n{{ '\\x4' }}"),
            (Strings{"INVALID_ARGUMENT: line 2: bad escape \\x4"}));
  EXPECT_EQ(Lex("a\xFF"),
            (Strings{"INVALID_ARGUMENT: the template is not UTF-8"}));
  EXPECT_EQ(Lex("{%- raw -%}{{{% endraw %}"),
            (Strings{"UNIMPLEMENTED: line 1: {% raw %} is not supported"}));
}

}  // namespace
}  // namespace bole::jinja
