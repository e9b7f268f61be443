// Escapes in the string literals of templates.
#ifndef BOLE_COMMON_CHAT_STRING_LITERAL_H_
#define BOLE_COMMON_CHAT_STRING_LITERAL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace bole::jinja {

// The value of what stands between the quotes of a literal, with Python's
// escapes; an unknown one is kept as it is, backslash included.
//
// INVALID_ARGUMENT for \x, \u and \U without their digits or outside of
// Unicode; UNIMPLEMENTED for \N{...}.
//
// REQUIRES: `quoted` is valid UTF-8 and does not end inside of an escape.
absl::StatusOr<std::string> Unescape(std::string_view quoted);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_STRING_LITERAL_H_
