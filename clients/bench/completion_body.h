// Requests of bole.v1 in OpenAI's words.
#ifndef BOLE_CLIENTS_BENCH_COMPLETION_BODY_H_
#define BOLE_CLIENTS_BENCH_COMPLETION_BODY_H_

#include <string>

#include "proto/bole.pb.h"

namespace bole::bench {

// Where a request goes, and what it says.
struct CompletionBody {
  std::string path;  // "/v1/completions", or that of chats.
  std::string json;
};

// A body that asks for a stream with token ids, and the usage at its end. What
// `request` does not set is left out, so that servers which know fewer fields
// take it, too.
//
// REQUIRES: one choice, whose messages have role and content alone; nothing to
// resume, no echo and no constraint.
CompletionBody MakeCompletionBody(const v1::GenerateRequest& request);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_COMPLETION_BODY_H_
