// One line of a terminal that is drawn over and over.
#ifndef BOLE_CLIENTS_CLI_STATUS_LINE_H_
#define BOLE_CLIENTS_CLI_STATUS_LINE_H_

#include <cstdio>
#include <string>

namespace bole {

// Columns of the terminal that `file` is, 80 if it is none.
int TerminalWidth(std::FILE* file);

// Not thread-safe.
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

#endif  // BOLE_CLIENTS_CLI_STATUS_LINE_H_
