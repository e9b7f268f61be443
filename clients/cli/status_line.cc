#include "clients/cli/status_line.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstddef>

namespace bole {
namespace {

// Control sequences that every terminal since the VT100 knows.
constexpr const char* kLineDown = "\033D";  // Scrolls in the last line.
constexpr const char* kLineUp = "\033[A";
constexpr const char* kSaveCursor = "\0337";
constexpr const char* kRestoreCursor = "\0338";
constexpr const char* kClearToEndOfLine = "\033[K";

}  // namespace

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
