// Values as text, in Python's spelling.
#ifndef BOLE_COMMON_CHAT_PYTHON_FORMAT_H_
#define BOLE_COMMON_CHAT_PYTHON_FORMAT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/budget.h"
#include "common/chat/value.h"

namespace bole::jinja {

// str(value): text as it is, True, None, 1.0, ['a', 1]; nothing if undefined.
// UNIMPLEMENTED for functions, namespaces and the like.
absl::StatusOr<std::string> ToStr(const Value& value, Budget* budget);

// json.dumps(value, ensure_ascii=False): separators ", " and ": ", members in
// order of insertion, no HTML escapes. INVALID_ARGUMENT for what is not JSON.
absl::StatusOr<std::string> ToJson(const Value& value, Budget* budget);

// repr(text) and repr(number).
std::string ReprOfString(std::string_view text);
std::string ReprOfFloat(double number);

// json.dumps(text, ensure_ascii=False).
std::string JsonOfString(std::string_view text);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_PYTHON_FORMAT_H_
