// Makes one Generate call and prints the answer as it arrives.
#ifndef BOLE_CLIENTS_CLI_ANSWER_H_
#define BOLE_CLIENTS_CLI_ANSWER_H_

#include <cstdint>
#include <map>
#include <string>

#include "clients/cli/connection.h"
#include "proto/bole.pb.h"

namespace bole {

enum class AnswerFormat {
  kText,        // The text as it arrives; on a terminal with a status line.
  kJson,        // One line for each choice: a GenerateResponse with all of it.
  kJsonStream,  // One line for every GenerateResponse.
};

// The result of a choice.
struct AnsweredChoice {
  std::string text;
  v1::GenerateComplete complete;
};

struct Answer {
  int exit_code = 0;
  // By number. If exit_code is 0, all requested choices, each complete.
  std::map<uint32_t, AnsweredChoice> choices;
};

// Prints the answer to stdout, and says on stderr if and why it failed. In
// kText choices are printed one after the other, with a line that numbers it
// above each if there are several.
Answer PrintAnswer(Connection& connection, v1::GenerateRequest request,
                   AnswerFormat format);

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_ANSWER_H_
