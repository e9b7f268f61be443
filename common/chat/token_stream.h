// The tokens of a template as its parsers read them.
#ifndef BOLE_COMMON_CHAT_TOKEN_STREAM_H_
#define BOLE_COMMON_CHAT_TOKEN_STREAM_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/chat/lexer.h"

namespace bole::jinja {

// How deep tags and brackets may be nested in a template.
inline constexpr int kMaxTemplateDepth = 100;

class TokenStream {
 public:
  // REQUIRES: the last token is kEnd.
  explicit TokenStream(std::vector<Token> tokens)
      : tokens_(std::move(tokens)) {}

  // The current token, and the one after it. At the end they return kEnd.
  const Token& Peek() const { return tokens_[at_]; }
  const Token& PeekSecond() const;

  // Returns the current token and moves to the next.
  const Token& Next();

  bool IsName(std::string_view name) const;
  bool IsOperator(std::string_view op) const;

  // Moves on if the current token is the given one, and returns whether it was.
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view op);

  // The same, but anything else is an error.
  absl::Status ExpectOperator(std::string_view op);
  absl::Status Expect(Token::Kind kind);
  absl::StatusOr<std::string> ExpectName();

  // Errors at the current token: "line 3: expected ..., not 'x'", and
  // "line 3: ... is not supported".
  absl::Status Unexpected(std::string_view expected) const;
  absl::Status Unsupported(std::string_view what) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// Counts one level of nesting while it lives.
class Nesting {
 public:
  explicit Nesting(int* depth) : depth_(depth) { ++*depth_; }
  ~Nesting() { --*depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int* depth_;
};

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_TOKEN_STREAM_H_
