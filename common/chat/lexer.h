// The text of a template as tokens.
#ifndef BOLE_COMMON_CHAT_LEXER_H_
#define BOLE_COMMON_CHAT_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace bole::jinja {

struct Token {
  enum class Kind {
    kText,       // `text` outside of tags, white space control applied.
    kTagBegin,   // {%
    kTagEnd,     // %}
    kExprBegin,  // {{
    kExprEnd,    // }}
    kName,
    kString,  // `text` is its value, escapes resolved.
    kInteger,
    kFloat,
    kOperator,
    kEnd,  // The template's end; always the last token.
  };
  Kind kind;
  std::string text;
  int line;  // From 1.
};

// The tokens of `source`, as Jinja splits it with trim_blocks and lstrip_blocks
// on: the newline after a block tag and the white space before one on its line
// are dropped, and so is one newline at the very end. Line ends may be \n, \r\n
// or \r. Comments give no token.
//
//   INVALID_ARGUMENT  a tag, comment or string without end, an unknown
//                     character or escape, or text that is not UTF-8.
//   UNIMPLEMENTED     {% raw %}, and \N{...} in strings.
//
// Messages start with the line.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_LEXER_H_
