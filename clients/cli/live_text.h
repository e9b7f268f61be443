// Text that grows on a terminal, with a status line below it.
#ifndef BOLE_CLIENTS_CLI_LIVE_TEXT_H_
#define BOLE_CLIENTS_CLI_LIVE_TEXT_H_

#include <cstdio>
#include <string>
#include <string_view>

#include "clients/cli/terminal.h"

namespace bole {

// Where text and status go; the files must outlive the objects that write to
// them.
struct LiveTextOptions {
  std::FILE* text = stdout;
  std::FILE* status = stderr;
  bool text_on_terminal = false;
  bool status_on_terminal = false;
};

// The process's own: stdout and stderr.
LiveTextOptions StandardStreams();

// One answer. Text for a terminal is made safe for it. To anything else text is
// written byte for byte, and no status at all. Not thread-safe.
class LiveText {
 public:
  explicit LiveText(const LiveTextOptions& options);
  ~LiveText();  // Calls End().

  LiveText(const LiveText&) = delete;
  LiveText& operator=(const LiveText&) = delete;

  // Appends `text`, in whole characters, and flushes it.
  void Write(std::string_view text);

  // Replaces the status line. It is removed before the next text.
  void ShowStatus(const std::string& line);

  // Removes the status line. On a terminal, ends a line that was begun.
  void End();

 private:
  const LiveTextOptions options_;
  StatusLine status_;
  int column_ = 0;  // Column of the cursor after the text.
};

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_LIVE_TEXT_H_
