// What is known of one request after its end.
#ifndef BOLE_CLIENTS_BENCH_REQUEST_RECORD_H_
#define BOLE_CLIENTS_BENCH_REQUEST_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/bole.pb.h"

namespace bole::bench {

// Tokens that one message brought.
struct TokenArrival {
  double seconds = 0;
  int tokens = 0;  // > 0
};

// Times are seconds since the start of the run.
struct RequestRecord {
  // The number of the instance of its session, as in ScheduledTurn.
  int instance = 0;
  int turn = 0;
  int retries = 0;
  int resumes = 0;  // After streams that broke.
  double scheduled = 0;
  double sent = 0;  // The last attempt, or the first that brought a token.
  double end = 0;
  std::vector<TokenArrival> arrivals;  // In order.
  // SHA-256 of the token ids, in decimal and separated by commas. It shows
  // whether two runs generated the same tokens.
  std::string output_sha256 = {};
  // How the last attempt ended.
  absl::Status status;
  std::string reason = {};  // The server's reason for it, if it gave one.
  // As the server reports them at the end; zeros if it did not end well.
  int prompt_tokens = 0;
  int cached_tokens = 0;
  v1::Speculation speculation = {};
};

// The number of tokens that arrived, whether or not the request ended well.
int OutputTokens(const RequestRecord& record);

// Absent: no token arrived.
std::optional<double> FirstTokenTime(const RequestRecord& record);
std::optional<double> LastTokenTime(const RequestRecord& record);

// Mean time per token after the first one, in seconds. Absent: fewer than two
// tokens, or the request did not end well.
std::optional<double> TimePerOutputToken(const RequestRecord& record);

// Whether the server refused the request before it ran: RESOURCE_EXHAUSTED or
// UNAVAILABLE, and no token came.
bool IsRefusal(const RequestRecord& record);

// Why a request did not end well, for counting: the code's name, and the
// server's reason if it says more: "RESOURCE_EXHAUSTED QUEUE_REQUESTS".
std::string FailureReason(const RequestRecord& record);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_REQUEST_RECORD_H_
