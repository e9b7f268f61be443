// What a load consists of: sessions of turns, each turn one request.
//
// Plain data. Nothing here says when a session arrives unless the file did:
// schedule.h decides that.
#ifndef BOLE_CLIENTS_BENCH_WORKLOAD_H_
#define BOLE_CLIENTS_BENCH_WORKLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace bole::bench {

struct Message {
  std::string role;  // "system", "user", "assistant" or "tool".
  std::string content;

  bool operator==(const Message&) const = default;
};

// Token ids that are made from a seed when the request is sent. Equal seeds
// give equal ids, position by position, whatever the lengths: two prompts that
// begin with the same segments have a prefix in common.
struct Segment {
  uint64_t seed = 0;
  int length = 0;  // Tokens, >= 0.

  bool operator==(const Segment&) const = default;
};

// One request. Its prompt is the history of the session (all that came before,
// answers included) and `input`.
struct Turn {
  std::variant<std::vector<Message>, std::vector<Segment>> input;
  // Tokens to generate, if the file says so.
  std::optional<int> output_tokens;
  // Seconds from the end of the previous turn to the arrival of this one.
  // Absent: the file does not say.
  std::optional<double> think_seconds;
  // The answer in the file, for a replay that takes it as history.
  std::string recorded_answer;
};

struct Session {
  std::string name;
  // Since the first arrival of the file, in seconds.
  std::optional<double> start_seconds;
  std::vector<Turn> turns;  // At least one.
};

struct Workload {
  std::string name;  // The file's, or a description of a synthetic one.
  std::string format;
  std::vector<Session> sessions;  // At least one.
};

// Whether every turn of `workload` has a number of tokens to generate. Answers
// then have that length only if stop tokens are ignored.
bool HasOutputLengths(const Workload& workload);

// Whether every session of `workload` has an arrival.
bool HasArrivals(const Workload& workload);

// The tokens of the longest prompt and its requested answer together, as far as
// they are known: texts count as no tokens.
int LongestContext(const Workload& workload);

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_WORKLOAD_H_
