#include "clients/cli/prompt.h"

#include <unistd.h>

#include <cstddef>
#include <cstdio>

#include "clients/cli/failure.h"
#include "common/tokenizer/utf8.h"

namespace bole {
namespace {

std::string ReadAll(std::FILE* file) {
  std::string text;
  char buffer[1 << 14];
  size_t size = 0;
  while ((size = std::fread(buffer, 1, sizeof(buffer), file)) > 0) {
    text.append(buffer, size);
  }
  return text;
}

}  // namespace

int ReadText(const std::string& name,
             const std::optional<std::string>& argument, std::string& text) {
  if (argument && *argument != "-") {
    text = *argument;
  } else if (!argument && isatty(STDIN_FILENO) != 0) {
    return UsageError("no " + name + ": give one, or pipe one in");
  } else {
    text = ReadAll(stdin);
  }
  return IsValidUtf8(text) ? kExitOk : UsageError(name + " is not UTF-8");
}

v1::ChatInput NewChat(const std::optional<std::string>& system) {
  v1::ChatInput chat;
  if (system) AddMessage("system", *system, chat);
  return chat;
}

}  // namespace bole
