// One Generate call, printed as it comes.
#ifndef BOLE_CLIENTS_CLI_ANSWER_H_
#define BOLE_CLIENTS_CLI_ANSWER_H_

#include <string>

#include "clients/cli/connection.h"
#include "proto/bole.pb.h"

namespace bole {

enum class AnswerFormat {
  kText,        // The text while it comes; on a terminal with a status line.
  kJson,        // One GenerateResponse with everything, at the end.
  kJsonStream,  // Every GenerateResponse on a line.
};

struct Answer {
  int exit_code = 0;
  std::string text;               // As far as it came.
  v1::GenerateComplete complete;  // If exit_code is 0.
};

// Prints the answer to stdout, and says on stderr if and why it failed.
Answer PrintAnswer(Connection& connection, v1::GenerateRequest request,
                   AnswerFormat format);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_ANSWER_H_
