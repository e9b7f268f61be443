#include "tests/simulation/child_process.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "common/check.h"

extern char** environ;

namespace bole::simulation {
namespace {

constexpr std::string_view kListening = "listening on ";

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command) {
  int ends[2];
  BOLE_CHECK(pipe(ends) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  BOLE_CHECK(posix_spawn(&pid_, arguments[0], &actions, nullptr,
                         arguments.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);

  output_ = fdopen(ends[0], "r");
  BOLE_CHECK(output_ != nullptr);
  char line[512];
  while (address_.empty()) {
    BOLE_CHECK(std::fgets(line, sizeof(line), output_) != nullptr);
    std::string_view text(line);
    if (!text.starts_with(kListening)) continue;
    text.remove_prefix(kListening.size());
    address_ = text.substr(0, text.find('\n'));
  }
}

ChildProcess::~ChildProcess() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    Wait();
  }
  std::fclose(output_);
}

void ChildProcess::Terminate() const { kill(pid_, SIGTERM); }

int ChildProcess::Wait() {
  int status = 0;
  BOLE_CHECK(waitpid(pid_, &status, 0) == pid_);
  ended_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace bole::simulation
