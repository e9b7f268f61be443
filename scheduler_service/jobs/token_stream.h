// Carries a request's tokens from the loop to its client.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_TOKEN_STREAM_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_TOKEN_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/step.h"

namespace bole {

// The stop token or string that ended a text; neither if the text reached its
// maximum length.
using MatchedStop = std::variant<std::monostate, int32_t, std::string>;

// What was verified for a request, over all its rounds.
struct SpeculationSummary {
  int rounds = 0;              // The sum of the next three.
  int off_rounds = 0;          // Verified only the pending token.
  int chain_rounds = 0;        // Verified a chain below it.
  int tree_rounds = 0;         // Verified a tree.
  int64_t selected_nodes = 0;  // Roots included.
  // Drafts that were expected to be accepted, by the drafter's probabilities,
  // in the rounds whose nodes the scheduler chose.
  double promised_tokens = 0;
  int accepted_drafts = 0;
  std::string off_reason;  // The most frequent; empty: no round was off.
};

// How a request ended that did not fail. Durations are seconds since the
// request's arrival.
struct Completion {
  MatchedStop matched;
  int rounds = 0;           // Forward passes that verified a tree.
  int accepted_drafts = 0;  // Output tokens that the drafter proposed.
  int cached_tokens = 0;    // Prompt tokens that the prefix cache had.
  SpeculationSummary speculation = {};
  double queue_seconds = 0;
  double first_token_seconds = 0;
  double total_seconds = 0;
};

// A part of the output, which follows what was taken before.
struct TokenDelta {
  std::vector<EmittedToken> tokens;
  std::string text;
  // If they were requested: the log probabilities of all tokens of the prompt
  // but its first. They are sent once, in the delta with the first output.
  std::vector<EmittedToken> prompt_logprobs;
  // Set once, with the last tokens: no delta follows.
  std::optional<absl::StatusOr<Completion>> end;
  size_t bytes = 0;  // Approximate memory of all these.

  bool empty() const { return tokens.empty() && text.empty() && !end; }
};

struct TokenStreamLimits {
  // A stream overflows rather than let more output wait. One delta may always
  // wait in it, whatever its size, and log probabilities of the prompt do not
  // count.
  size_t max_waiting_bytes = SIZE_MAX;
  // Output is merged into deltas of at most this size, so that each of them
  // becomes a message that is quick to encode.
  size_t max_delta_bytes = SIZE_MAX;
};

// The number of bytes that wait in all streams that share it. Thread-safe.
using WaitingBytes = std::atomic<size_t>;

// One request's output, written by the loop and read by an RPC. Writing never
// waits for the reader: output that a slow client has not taken is merged into
// a few deltas. A stream that holds too much overflows: it is cancelled, and
// keeps nothing that comes later.
//
// Thread-safe: one writer, one reader, and anyone may cancel. The lock is held
// while tokens are moved, never while they are encoded or freed.
class TokenStream {
 public:
  // `on_ready` is called by the writer, without locks, whenever there is
  // something to take and there was nothing before, and when the stream
  // overflows. It must not block. What waits in all streams that share
  // `waiting`, of one writer, counts against the limits of each.
  explicit TokenStream(
      std::function<void()> on_ready, const TokenStreamLimits& limits = {},
      std::shared_ptr<WaitingBytes> waiting = std::make_shared<WaitingBytes>(0))
      : on_ready_(std::move(on_ready)),
        limits_(limits),
        all_waiting_(std::move(waiting)) {}

  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  // For the writer. REQUIRES: Finish() was not called; prompt_logprobs come
  // with the first output only. COST: O(tokens appended).
  void Append(std::vector<EmittedToken> tokens, std::string text,
              std::vector<EmittedToken> prompt_logprobs = {});
  void Finish(absl::StatusOr<Completion> end);

  // `hook` is called once, by the thread that cancels, or now if the stream is
  // cancelled already, but not after Finish(). It must neither block nor call
  // the stream.
  void SetCancelHook(std::function<void()> hook);

  // For the reader: returns the oldest delta; empty if there is none. There may
  // be more.
  TokenDelta Take();

  // For the reader: drops what waits, on this thread, and all later output.
  void Discard();

  // Nobody reads the stream any more. The first call runs the hook.
  void Cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Output was lost because more came than may wait.
  bool overflowed() const {
    return overflowed_.load(std::memory_order_acquire);
  }
  size_t waiting_bytes() const;

 private:
  const std::function<void()> on_ready_;
  const TokenStreamLimits limits_;
  const std::shared_ptr<WaitingBytes> all_waiting_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> overflowed_{false};
  mutable Mutex mutex_;
  std::deque<TokenDelta> deltas_ ABSL_GUARDED_BY(mutex_);  // Oldest first.
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;       // Sum over deltas_.
  // The part of waiting_bytes_ that prompt_logprobs take.
  size_t prompt_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool discarding_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);  // Or empty.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_TOKEN_STREAM_H_
