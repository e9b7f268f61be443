// Services as processes of their own.
#ifndef BOLE_TESTS_SIMULATION_CHILD_PROCESS_H_
#define BOLE_TESTS_SIMULATION_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace bole::simulation {

// A process that says "listening on ADDRESS" on its standard output. It is
// killed when this goes, unless it has ended. One thread.
class ChildProcess {
 public:
  // Starts `command`, whose first word is the path of the binary, and waits
  // until it listens. The process stops if it ends before.
  explicit ChildProcess(const std::vector<std::string>& command);
  ~ChildProcess();

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& address() const { return address_; }

  // Sends SIGTERM.
  void Terminate() const;
  // Waits until it ends. Returns its exit code, or -1 for a signal.
  int Wait();

 private:
  pid_t pid_ = -1;
  std::FILE* output_ = nullptr;
  std::string address_;
  bool ended_ = false;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_CHILD_PROCESS_H_
