// A program that a test runs, in pipes or on a terminal.
#ifndef BOLE_TESTS_CLIENTS_CLI_PROCESS_H_
#define BOLE_TESTS_CLIENTS_CLI_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace bole::testing_support {

enum class Streams {
  kPipes,     // stdin is a closed pipe once what it holds is read.
  kTerminal,  // A terminal of 80 columns, the controlling one, for all three.
};

// One thread uses it. Failures of the system end the test program.
class Process {
 public:
  // Starts `command`, a path and its arguments, with `input` in its stdin.
  Process(const std::vector<std::string>& command, std::string_view input,
          Streams streams);
  ~Process();  // Kills what still runs.

  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads stdout until `text` is in it, beyond what an earlier call found.
  // Returns false if it ends without.
  bool WaitFor(std::string_view text);

  // Types on the terminal.
  void Type(std::string_view text);

  void Signal(int signal);

  // Reads to the end. Returns the exit code, or 128 + the signal that ended it.
  int Wait();

  // After Wait(). On a terminal, `out` has both.
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

 private:
  void StartInPipes(const std::vector<std::string>& command,
                    std::string_view input);
  void StartOnTerminal(const std::vector<std::string>& command);
  bool ReadMore();

  pid_t pid_ = 0;  // 0: none runs.
  int out_file_ = -1;
  int err_file_ = -1;  // -1 on a terminal.
  size_t found_ = 0;   // Bytes of out_ that WaitFor() is past.
  std::string out_;
  std::string err_;
};

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_CLIENTS_CLI_PROCESS_H_
