#include "clients/cli/terminal_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "common/tokenizer/utf8.h"

namespace bole {
namespace {

bool IsHarmless(uint32_t code_point) {
  if (code_point == '\n' || code_point == '\t') return true;
  if (code_point < 0x20) return false;
  return code_point < 0x7F || code_point > 0x9F;
}

std::string Escaped(uint32_t code_point) {
  char text[16];
  std::snprintf(text, sizeof(text), code_point < 0x80 ? "\\x%02x" : "\\u%04x",
                code_point);
  return text;
}

// Calls `use(code_point, bytes)` for every character; invalid bytes are U+FFFD.
template <typename Use>
void ForEachCharacter(std::string_view text, Use use) {
  const std::string valid = ReplaceInvalidUtf8(text);
  std::string_view rest = valid;
  while (!rest.empty()) {
    const int size = ScanUtf8(rest).size;
    use(DecodeCodePoint(rest, size), rest.substr(0, size));
    rest.remove_prefix(size);
  }
}

}  // namespace

std::string SafeForTerminal(std::string_view text) {
  std::string safe;
  ForEachCharacter(text, [&](uint32_t code_point, std::string_view bytes) {
    safe += IsHarmless(code_point) ? std::string(bytes) : Escaped(code_point);
  });
  return safe;
}

int ColumnAfter(std::string_view text, int column, int width) {
  constexpr int kTabStop = 8;
  ForEachCharacter(text, [&](uint32_t code_point, std::string_view) {
    if (code_point == '\n') {
      column = 0;
    } else if (code_point == '\t') {
      column = std::min((column / kTabStop + 1) * kTabStop, width - 1);
    } else {
      const int columns =
          utf8proc_charwidth(static_cast<utf8proc_int32_t>(code_point));
      column = column + columns > width ? columns : column + columns;
    }
  });
  return column;
}

}  // namespace bole
