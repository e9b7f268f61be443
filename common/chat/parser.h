// Parsing of templates.
#ifndef BOLE_COMMON_CHAT_PARSER_H_
#define BOLE_COMMON_CHAT_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/ast.h"

namespace bole::jinja {

// The longest template.
inline constexpr size_t kMaxTemplateBytes = 1 << 20;

// The syntax tree of `source`. Errors start with the line.
//
//   INVALID_ARGUMENT  not a template: syntax, text that is not UTF-8, too
//                     long, or nested deeper than kMaxTemplateDepth.
//   UNIMPLEMENTED     a tag, filter, test or operator of Jinja that this
//                     interpreter does not have; the message names it.
absl::StatusOr<Template> ParseTemplate(std::string_view source);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_PARSER_H_
