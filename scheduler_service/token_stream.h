// The way of a request's tokens from the loop to its client.
#ifndef BOLE_SCHEDULER_SERVICE_TOKEN_STREAM_H_
#define BOLE_SCHEDULER_SERVICE_TOKEN_STREAM_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/step.h"

namespace bole {

// The stop token or string that ended a text; neither if it became too long.
using MatchedStop = std::variant<std::monostate, int32_t, std::string>;

// How a request ended that nothing went wrong with. Durations are seconds since
// the request's arrival.
struct Completion {
  MatchedStop matched;
  int rounds = 0;           // Forwards that verified a tree.
  int accepted_drafts = 0;  // Output tokens that the drafter proposed.
  double queue_seconds = 0;
  double first_token_seconds = 0;
  double total_seconds = 0;
};

// What came since the last time.
struct TokenDelta {
  std::vector<EmittedToken> tokens;
  std::string text;
  // Set once, with the last tokens: no delta follows.
  std::optional<absl::StatusOr<Completion>> end;

  bool empty() const { return tokens.empty() && text.empty() && !end; }
};

// One request's output, written by the loop and read by an RPC. Writing never
// waits: what a slow client has not taken is merged into one delta, so a stream
// holds at most the request's output and delays nobody else.
//
// Thread-safe: one writer, one reader, and anyone may cancel.
class TokenStream {
 public:
  // `on_ready` is called by the writer, without locks, whenever there is
  // something to take and there was nothing before. It must not block.
  explicit TokenStream(std::function<void()> on_ready)
      : on_ready_(std::move(on_ready)) {}

  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  // Writer. REQUIRES: Finish() was not called.
  void Append(std::vector<EmittedToken> tokens, std::string text);
  void Finish(absl::StatusOr<Completion> end);

  // Reader: everything since the last call; empty if there is nothing.
  TokenDelta Take();

  // Nobody reads any more. The writer sees it in its next round.
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

 private:
  const std::function<void()> on_ready_;
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  TokenDelta pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_TOKEN_STREAM_H_
