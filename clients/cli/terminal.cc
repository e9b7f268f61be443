#include "clients/cli/terminal.h"

#include <sys/ioctl.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
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

// Control sequences that every terminal since the VT100 knows.
constexpr const char* kLineDown = "\033D";  // Scrolls in the last line.
constexpr const char* kLineUp = "\033[A";
constexpr const char* kSaveCursor = "\0337";
constexpr const char* kRestoreCursor = "\0338";
constexpr const char* kClearToEndOfLine = "\033[K";

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

int TerminalWidth(std::FILE* file) {
  constexpr int kUsualWidth = 80;
  winsize size{};
  if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualWidth;
  }
  return size.ws_col;
}

void StatusLine::Show(const std::string& line, int column) {
  if (place_ == Place::kNowhere) return;
  const int width = TerminalWidth(file_);
  const std::string cut =
      line.substr(0, static_cast<size_t>(std::max(width - 1, 0)));
  if (place_ == Place::kOwnLine) {
    std::fprintf(file_, "\r%s%s", cut.c_str(), kClearToEndOfLine);
  } else {
    if (column >= width) return;
    // Down and up makes sure that there is a line below to draw in.
    std::fprintf(file_, "%s%s%s%s\r%s%s%s", kLineDown, kLineUp, kSaveCursor,
                 kLineDown, cut.c_str(), kClearToEndOfLine, kRestoreCursor);
  }
  std::fflush(file_);
  shown_ = true;
}

void StatusLine::Hide() {
  if (!shown_) return;
  if (place_ == Place::kOwnLine) {
    std::fprintf(file_, "\r%s", kClearToEndOfLine);
  } else {
    std::fprintf(file_, "%s%s\r%s%s", kSaveCursor, kLineDown, kClearToEndOfLine,
                 kRestoreCursor);
  }
  std::fflush(file_);
  shown_ = false;
}

}  // namespace bole
