#include "common/chat/string_literal.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/tokenizer/utf8.h"

namespace bole::jinja {
namespace {

std::optional<char> SimpleEscape(char c) {
  constexpr std::string_view kNames = "\\'\"abfnrtv";
  constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
  const size_t i = kNames.find(c);
  if (i == kNames.npos) return std::nullopt;
  return kValues[i];
}

// How many hexadecimal digits follow \x, \u or \U; 0 for other letters.
size_t NumHexDigits(char c) {
  switch (c) {
    case 'x':
      return 2;
    case 'u':
      return 4;
    case 'U':
      return 8;
    default:
      return 0;
  }
}

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// The number that all of `digits` make, if they do.
std::optional<uint32_t> ParseNumber(std::string_view digits, int base) {
  uint32_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number, base);
  if (digits.empty() || error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return number;
}

// Resolves the escape at the start of `rest`, after its backslash, and returns
// how long it is.
absl::StatusOr<size_t> ResolveEscape(std::string_view rest, std::string* out) {
  const char c = rest[0];
  if (c == '\n') return 1;  // A literal goes on in the next line.
  if (const std::optional<char> value = SimpleEscape(c)) {
    *out += *value;
    return 1;
  }
  if (IsOctal(c)) {
    size_t size = 1;
    while (size < 3 && size < rest.size() && IsOctal(rest[size])) ++size;
    AppendCodePoint(*ParseNumber(rest.substr(0, size), 8), out);
    return size;
  }
  if (const size_t num_digits = NumHexDigits(c); num_digits > 0) {
    const std::string_view digits = rest.substr(1, num_digits);
    const std::optional<uint32_t> code_point = ParseNumber(digits, 16);
    const bool is_scalar = code_point && *code_point <= 0x10FFFF &&
                           (*code_point < 0xD800 || *code_point > 0xDFFF);
    if (digits.size() < num_digits || !is_scalar) {
      return absl::InvalidArgumentError(absl::StrCat(
          "bad escape \\", std::string(rest.substr(0, 1 + num_digits))));
    }
    AppendCodePoint(*code_point, out);
    return 1 + num_digits;
  }
  if (c == 'N') {
    return absl::UnimplementedError("the escape \\N{...} is not supported");
  }
  *out += '\\';
  return 0;
}

}  // namespace

absl::StatusOr<std::string> Unescape(std::string_view quoted) {
  std::string out;
  size_t i = 0;
  while (i < quoted.size()) {
    if (quoted[i] != '\\') {
      out += quoted[i++];
      continue;
    }
    ++i;
    BOLE_ASSIGN_OR_RETURN(const size_t size,
                          ResolveEscape(quoted.substr(i), &out));
    i += size;
  }
  return out;
}

}  // namespace bole::jinja
