// One answer that takes several calls, each of which continues where the stream
// of the previous one broke.
#ifndef BOLE_CLIENTS_SDK_GENERATION_H_
#define BOLE_CLIENTS_SDK_GENERATION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "clients/sdk/call_error.h"
#include "clients/sdk/retry_policy.h"
#include "grpcpp/support/status.h"
#include "proto/bole.pb.h"

namespace bole {

// How an answer was received.
struct GenerationStats {
  int retries = 0;  // Attempts before anything arrived, except the last.
  int resumes = 0;  // Attempts that continued from what had arrived.
  // When the attempt that brought the first response began, or else the last
  // one.
  std::chrono::steady_clock::time_point sent = {};
};

// Decides what is sent and what the caller sees; sends nothing itself. Not
// thread-safe.
//
// A resumed call begins before the last chunk that had tokens, because a choice
// whose last token ended it cannot be resumed after it. What arrives a second
// time must be the same and is cut off, so that the caller gets every token and
// every byte of text once.
class Generation {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // If it may be resumed, `request` gets a seed and an id if it has none: they
  // must be known before the first token. `jitter_seed` as in Retries.
  Generation(v1::GenerateRequest request, const RetryPolicy& policy,
             std::optional<TimePoint> deadline, uint64_t jitter_seed);

  // The request of the latest attempt; after End(), that of the next one.
  const v1::GenerateRequest& request() const { return request_; }

  // Called when an attempt begins, including the first one.
  void Begin(TimePoint now);

  // Takes a response of this attempt and cuts off what the caller already has.
  // False: nothing is left, or status() says what is wrong and the attempt must
  // be cancelled.
  bool Take(v1::GenerateResponse& response);

  // Called when the attempt has ended. Returns how long to wait before the next
  // one, for which request() is then ready, or nothing if the call has ended,
  // with status(). That is CANCELLED if the caller `cancelled` the call before
  // its answer was complete.
  std::optional<std::chrono::milliseconds> End(const grpc::Status& status,
                                               bool cancelled, TimePoint now);

  // The caller cancelled the call while it waited for an attempt.
  void Cancel() { status_ = absl::CancelledError("the caller cancelled"); }

  const absl::Status& status() const { return status_; }
  const GenerationStats& stats() const { return stats_; }

 private:
  // How much of a choice has arrived: its tokens, the bytes of each text, and
  // its tool calls.
  struct Position {
    size_t tokens = 0;
    size_t text = 0;
    size_t reasoning = 0;
    size_t tool_calls = 0;
  };
  struct Choice {
    std::vector<uint32_t>
        ids;               // All that came, those resumed at first included.
    Position whole;        // What the caller has.
    Position before_last;  // Before the last chunk with tokens.
    Position seen;         // What this attempt has brought.
    bool complete = false;
  };

  bool TakeChunk(v1::GenerateChunk& chunk, Choice& choice);
  bool TakeComplete(v1::GenerateComplete& complete, Choice& choice);
  bool Fail(absl::Status status);
  bool complete() const;
  // Makes request_ ask for the rest of the answer.
  void Resume();

  v1::GenerateRequest request_;
  Retries retries_;
  std::vector<Choice> choices_;
  bool began_ = false;       // Something has arrived.
  bool progressed_ = false;  // This attempt brought something new.
  bool has_prompt_ = false;
  absl::Status status_;
  GenerationStats stats_;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_GENERATION_H_
