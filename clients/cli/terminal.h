// Text on its way to a terminal, and the line below it.
#ifndef BOLE_CLIENTS_CLI_TERMINAL_H_
#define BOLE_CLIENTS_CLI_TERMINAL_H_

#include <cstdio>
#include <string>
#include <string_view>

namespace bole {

// `text` with nothing in it that a terminal obeys: every control character but
// line feed and tab becomes its number, ESC "\x1b" and CSI "\u009b". A model
// can be made to write anything, and some sequences retitle, hide or type.
std::string SafeForTerminal(std::string_view text);

// The column behind the last character, 0 to `width`, if `text` is written from
// `column` on. `width` is the column of a cursor that wraps with the next
// character.
//
// REQUIRES: width > 0. `text` is SafeForTerminal().
int ColumnAfter(std::string_view text, int column, int width);

// Columns of the terminal that `file` is, 80 if it is none.
int TerminalWidth(std::FILE* file);

// One line that is drawn over and over. Not thread-safe.
class StatusLine {
 public:
  enum class Place {
    kNowhere,    // There is no terminal.
    kOwnLine,    // Nothing else is written to the terminal meanwhile.
    kBelowText,  // Below the line that the cursor is in; it stays there.
  };

  // `file` outlives this.
  StatusLine(std::FILE* file, Place place) : file_(file), place_(place) {}

  // Draws `line`, cut to the terminal's width. `column` is the cursor's, behind
  // the text. Nothing is drawn while the next character of that text is to
  // wrap: moving the cursor there and back would lose it.
  void Show(const std::string& line, int column);

  // Leaves the terminal as it was before Show().
  void Hide();

 private:
  std::FILE* const file_;
  const Place place_;
  bool shown_ = false;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_TERMINAL_H_
