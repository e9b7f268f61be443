// Converts requests of bole.v1 to requests of OpenAI's API.
#ifndef BOLE_CLIENTS_BENCH_COMPLETION_BODY_H_
#define BOLE_CLIENTS_BENCH_COMPLETION_BODY_H_

#include <string>

#include "proto/bole.pb.h"

namespace bole::bench {

// The path and the body of a request.
struct CompletionBody {
  std::string path;  // "/v1/completions" or "/v1/chat/completions".
  std::string json;
};

// Makes a body that requests a stream with token ids and the usage at its end.
// Fields that `request` does not set are left out, so that servers that know
// fewer fields accept it too.
//
// REQUIRES: `request` has one choice, its messages have only role and content,
// it resumes nothing, and it has no echo and no constraint.
CompletionBody MakeCompletionBody(const v1::GenerateRequest& request);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_COMPLETION_BODY_H_
