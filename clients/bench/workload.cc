#include "clients/bench/workload.h"

#include <algorithm>

namespace bole::bench {
namespace {

int InputTokens(const Turn& turn) {
  int tokens = 0;
  if (const auto* segments = std::get_if<std::vector<Segment>>(&turn.input)) {
    for (const Segment& segment : *segments) tokens += segment.length;
  }
  return tokens;
}

}  // namespace

bool HasOutputLengths(const Workload& workload) {
  return std::all_of(
      workload.sessions.begin(), workload.sessions.end(),
      [](const Session& session) {
        return std::all_of(
            session.turns.begin(), session.turns.end(),
            [](const Turn& turn) { return turn.output_tokens.has_value(); });
      });
}

bool HasArrivals(const Workload& workload) {
  return std::all_of(
      workload.sessions.begin(), workload.sessions.end(),
      [](const Session& session) { return session.start_seconds.has_value(); });
}

int LongestContext(const Workload& workload) {
  int longest = 0;
  for (const Session& session : workload.sessions) {
    int tokens = 0;
    for (const Turn& turn : session.turns) {
      tokens += InputTokens(turn) + turn.output_tokens.value_or(0);
    }
    longest = std::max(longest, tokens);
  }
  return longest;
}

}  // namespace bole::bench
