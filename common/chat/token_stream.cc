#include "common/chat/token_stream.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace bole::jinja {
namespace {

using Kind = Token::Kind;

std::string Describe(Kind kind) {
  switch (kind) {
    case Kind::kTagBegin:
      return "{%";
    case Kind::kTagEnd:
      return "%}";
    case Kind::kExprBegin:
      return "{{";
    case Kind::kExprEnd:
      return "}}";
    case Kind::kName:
      return "a name";
    case Kind::kText:
      return "text";
    case Kind::kString:
      return "a string";
    case Kind::kEnd:
      return "the end of the template";
    case Kind::kInteger:
    case Kind::kFloat:
    case Kind::kOperator:
      return "a token";
  }
  return "a token";
}

std::string Describe(const Token& token) {
  const bool has_spelling =
      token.kind == Kind::kName || token.kind == Kind::kInteger ||
      token.kind == Kind::kFloat || token.kind == Kind::kOperator;
  return has_spelling ? absl::StrCat("'", token.text, "'")
                      : Describe(token.kind);
}

}  // namespace

const Token& TokenStream::PeekSecond() const {
  return tokens_[std::min(at_ + 1, tokens_.size() - 1)];
}

const Token& TokenStream::Next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::IsName(std::string_view name) const {
  return Peek().kind == Kind::kName && Peek().text == name;
}

bool TokenStream::IsOperator(std::string_view op) const {
  return Peek().kind == Kind::kOperator && Peek().text == op;
}

bool TokenStream::SkipName(std::string_view name) {
  if (!IsName(name)) return false;
  Next();
  return true;
}

bool TokenStream::SkipOperator(std::string_view op) {
  if (!IsOperator(op)) return false;
  Next();
  return true;
}

absl::Status TokenStream::ExpectOperator(std::string_view op) {
  if (SkipOperator(op)) return absl::OkStatus();
  return Unexpected(absl::StrCat("'", std::string(op), "'"));
}

absl::Status TokenStream::Expect(Kind kind) {
  if (Peek().kind != kind) return Unexpected(Describe(kind));
  Next();
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenStream::ExpectName() {
  if (Peek().kind != Kind::kName) return Unexpected(Describe(Kind::kName));
  return Next().text;
}

absl::Status TokenStream::Unexpected(std::string_view expected) const {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", Peek().line, ": expected ", std::string(expected),
                   ", not ", Describe(Peek())));
}

absl::Status TokenStream::Unsupported(std::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(
      "line ", Peek().line, ": ", std::string(what), " is not supported"));
}

}  // namespace bole::jinja
