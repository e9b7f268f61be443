// Text for a terminal, and the status line below it.
#ifndef BOLE_CLIENTS_CLI_TERMINAL_H_
#define BOLE_CLIENTS_CLI_TERMINAL_H_

#include <cstdio>
#include <string>
#include <string_view>

namespace bole {

// `text` without anything that a terminal would interpret: every control
// character except line feed and tab becomes its code, ESC "\x1b" and CSI
// "\u009b". A model can be made to write anything, and some sequences change
// the title, hide text or type input.
std::string SafeForTerminal(std::string_view text);

// The column after the last character, 0 to `width`, if `text` is written from
// `column` on. `width` is the column of a cursor that wraps with the next
// character.
//
// REQUIRES: width > 0. `text` is SafeForTerminal().
int ColumnAfter(std::string_view text, int column, int width);

// The number of columns of the terminal `file`, 80 if it is not a terminal.
int TerminalWidth(std::FILE* file);

// One line that is redrawn repeatedly. Not thread-safe.
class StatusLine {
 public:
  enum class Place {
    kNowhere,    // There is no terminal.
    kOwnLine,    // Nothing else is written to the terminal meanwhile.
    kBelowText,  // Below the line that the cursor is in; it stays there.
  };

  // `file` outlives this.
  StatusLine(std::FILE* file, Place place) : file_(file), place_(place) {}

  // Draws `line`, cut to the terminal's width. `column` is the cursor's, after
  // the text. Nothing is drawn while the next character of that text would
  // wrap: moving the cursor there and back would lose that state.
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
