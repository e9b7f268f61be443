// Converts errors of OpenAI's API to ends of calls.
#ifndef BOLE_CLIENTS_BENCH_OPENAI_FAILURE_H_
#define BOLE_CLIENTS_BENCH_OPENAI_FAILURE_H_

#include <string_view>

#include "clients/bench/transport.h"
#include "nlohmann/json_fwd.hpp"

namespace bole::bench {

// The end of a call that was answered with `http_status`, which is not 200, and
// `body`, which should be {"error": {...}}. The reason is the error's code in
// capitals, as over gRPC; a body of another form becomes part of the message.
CallEnd FailureOfAnswer(int http_status, std::string_view body);

// The same for the value of "error" in an event. Its code decides, or else its
// type; unknown ones are INTERNAL.
CallEnd FailureOfEvent(const nlohmann::json& error);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_OPENAI_FAILURE_H_
