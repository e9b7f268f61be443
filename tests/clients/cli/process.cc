#include "tests/clients/cli/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>

#include "common/check.h"

namespace bole::testing_support {
namespace {

// Not inherited by what is started, but for the copies that it gets.
std::array<int, 2> Pipe() {
  std::array<int, 2> ends;
  BOLE_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0);
  return ends;
}

// A file without a name that holds `text`.
int FileWith(std::string_view text) {
  char name[] = "/tmp/bole_process.XXXXXX";
  const int file = mkostemp(name, O_CLOEXEC);
  BOLE_CHECK(file >= 0 && unlink(name) == 0);
  BOLE_CHECK(write(file, text.data(), text.size()) ==
             static_cast<ssize_t>(text.size()));
  BOLE_CHECK(lseek(file, 0, SEEK_SET) == 0);
  return file;
}

pid_t Spawn(const std::vector<std::string>& command,
            const posix_spawn_file_actions_t& actions, bool new_session) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (new_session) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t pid = 0;
  BOLE_CHECK(posix_spawn(&pid, arguments[0], &actions, &attributes,
                         arguments.data(), environ) == 0);
  posix_spawnattr_destroy(&attributes);
  return pid;
}

}  // namespace

Process::Process(const std::vector<std::string>& command,
                 std::string_view input, Streams streams) {
  if (streams == Streams::kPipes) {
    StartInPipes(command, input);
  } else {
    StartOnTerminal(command);
    Type(input);
  }
}

Process::~Process() {
  if (pid_ != 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_file_);
  if (err_file_ >= 0) close(err_file_);
}

void Process::StartInPipes(const std::vector<std::string>& command,
                           std::string_view input) {
  const int in_file = FileWith(input);
  const std::array<int, 2> out = Pipe();
  err_file_ = FileWith("");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in_file, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err_file_, STDERR_FILENO);
  pid_ = Spawn(command, actions, /*new_session=*/false);
  posix_spawn_file_actions_destroy(&actions);
  close(in_file);
  close(out[1]);
  out_file_ = out[0];
}

void Process::StartOnTerminal(const std::vector<std::string>& command) {
  out_file_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  BOLE_CHECK(out_file_ >= 0 && grantpt(out_file_) == 0 &&
             unlockpt(out_file_) == 0);
  char name[64];
  BOLE_CHECK(ptsname_r(out_file_, name, sizeof(name)) == 0);
  const winsize size{
      .ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  BOLE_CHECK(ioctl(out_file_, TIOCSWINSZ, &size) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // The first terminal that a new session opens is its controlling one.
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, name, O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO);
  pid_ = Spawn(command, actions, /*new_session=*/true);
  posix_spawn_file_actions_destroy(&actions);
}

bool Process::ReadMore() {
  char buffer[4096];
  const ssize_t size = read(out_file_, buffer, sizeof(buffer));
  if (size <= 0) return false;  // A terminal that nobody has open is an error.
  out_.append(buffer, static_cast<size_t>(size));
  return true;
}

bool Process::WaitFor(std::string_view text) {
  size_t at = 0;
  while ((at = out_.find(text, found_)) == std::string::npos) {
    if (!ReadMore()) return false;
  }
  found_ = at + text.size();
  return true;
}

void Process::Type(std::string_view text) {
  BOLE_CHECK(write(out_file_, text.data(), text.size()) ==
             static_cast<ssize_t>(text.size()));
}

void Process::Signal(int signal) { BOLE_CHECK(kill(pid_, signal) == 0); }

int Process::Wait() {
  while (ReadMore()) {
  }
  int status = 0;
  BOLE_CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = 0;
  if (err_file_ >= 0) {
    BOLE_CHECK(lseek(err_file_, 0, SEEK_SET) == 0);
    char buffer[4096];
    ssize_t size = 0;
    while ((size = read(err_file_, buffer, sizeof(buffer))) > 0) {
      err_.append(buffer, static_cast<size_t>(size));
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace bole::testing_support
