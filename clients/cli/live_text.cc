#include "clients/cli/live_text.h"

#include <unistd.h>

#include <cstdlib>

#include "clients/cli/terminal.h"

namespace bole {
namespace {

bool ObeysControlSequences() {
  const char* terminal = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe)
  return terminal != nullptr && *terminal != '\0' &&
         std::string_view(terminal) != "dumb";
}

StatusLine::Place PlaceFor(const LiveTextOptions& options) {
  if (!options.status_on_terminal) return StatusLine::Place::kNowhere;
  return options.text_on_terminal ? StatusLine::Place::kBelowText
                                  : StatusLine::Place::kOwnLine;
}

}  // namespace

LiveTextOptions StandardStreams() {
  LiveTextOptions options;
  options.text_on_terminal = isatty(STDOUT_FILENO) != 0;
  options.status_on_terminal =
      isatty(STDERR_FILENO) != 0 && ObeysControlSequences();
  return options;
}

LiveText::LiveText(const LiveTextOptions& options)
    : options_(options), status_(options.status, PlaceFor(options)) {}

LiveText::~LiveText() { End(); }

void LiveText::Write(std::string_view text) {
  if (text.empty()) return;
  status_.Hide();
  if (options_.text_on_terminal) {
    const std::string safe = SafeForTerminal(text);
    std::fwrite(safe.data(), 1, safe.size(), options_.text);
    column_ = ColumnAfter(safe, column_, TerminalWidth(options_.text));
  } else {
    std::fwrite(text.data(), 1, text.size(), options_.text);
  }
  std::fflush(options_.text);
}

void LiveText::ShowStatus(const std::string& line) {
  status_.Show(line, column_);
}

void LiveText::End() {
  status_.Hide();
  if (!options_.text_on_terminal || column_ == 0) return;
  std::fputc('\n', options_.text);
  std::fflush(options_.text);
  column_ = 0;
}

}  // namespace bole
