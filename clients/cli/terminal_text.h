// Text from a model or a server, on its way to a terminal.
#ifndef BOLE_CLIENTS_CLI_TERMINAL_TEXT_H_
#define BOLE_CLIENTS_CLI_TERMINAL_TEXT_H_

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

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_TERMINAL_TEXT_H_
