// gRPC statuses as sentences for people and exit codes for programs.
#ifndef BOLE_CLIENTS_CLI_FAILURE_H_
#define BOLE_CLIENTS_CLI_FAILURE_H_

#include <optional>
#include <string>

#include "clients/sdk/call_error.h"
#include "grpcpp/support/status.h"

namespace bole {

// What `bole` exits with. kExitCodesHelp is the text for people.
enum ExitCode : int {
  kExitOk = 0,
  kExitError = 1,
  kExitUsage = 2,
  kExitUnavailable = 3,  // Or overloaded: worth another try.
  kExitDeadline = 4,
  kExitCancelled = 130,  // As shells report a command that SIGINT ended.
};

inline constexpr char kExitCodesHelp[] =
    "Exit codes: 0 done; 1 error; 2 wrong usage; 3 nothing answers, not "
    "available, or overloaded; 4 the time is up; 130 cancelled.";

// What is known about a call besides its status.
struct CallFacts {
  std::string address;
  bool reached = true;  // False: no connection could be made.
  std::optional<double> timeout_seconds = std::nullopt;
};

struct Failure {
  int exit_code;
  std::string code;      // UNAVAILABLE
  std::string sentence;  // Without a full stop or a line feed.
};

// REQUIRES: the code is not OK.
Failure Explain(const CallError& error, const CallFacts& facts);

// Prints to stderr what is wrong with a command line. Returns kExitUsage.
int UsageError(const std::string& sentence);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_FAILURE_H_
