// Makes many calls at once and collects their results.
#ifndef BOLE_CLIENTS_BENCH_LOAD_CLIENT_H_
#define BOLE_CLIENTS_BENCH_LOAD_CLIENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "clients/bench/request_record.h"
#include "clients/bench/transport.h"
#include "common/mutex.h"
#include "proto/bole.pb.h"

namespace bole::bench {

using Clock = std::chrono::steady_clock;

// A call that ended. Times are seconds since the start of the run.
struct EndedCall {
  uint64_t id = 0;
  double sent = 0;
  double end = 0;
  std::vector<TokenArrival> arrivals;
  std::vector<uint32_t> ids;  // The tokens that arrived.
  std::string text;           // The text that came with them.
  absl::Status status;
  std::string reason;  // The server's, if it gave one.
  std::optional<double> retry_after_seconds;
  v1::GenerateComplete complete;  // If status is OK.
};

// Tokens are timed in the transport's threads, when a message has been read.
// Thread-safe.
class LoadClient {
 public:
  // `start` is the start of the run; `timeout_seconds` bounds each call.
  LoadClient(std::shared_ptr<Transport> transport, Clock::time_point start,
             std::optional<double> timeout_seconds);
  // Cancels the calls that have not ended, and waits for them.
  ~LoadClient();

  LoadClient(const LoadClient&) = delete;
  LoadClient& operator=(const LoadClient&) = delete;

  // Sends a request. The caller chooses `id`, which must not be in use.
  void Send(uint64_t id, v1::GenerateRequest request);

  // Returns the calls that ended since the last time. If there are none, waits
  // for one until `deadline` or Wake().
  std::vector<EndedCall> TakeEnded(Clock::time_point deadline);

  // Makes the current TakeEnded(), or else the next one, return without
  // waiting.
  void Wake();

  // Every call ends soon, most of them with CANCELLED.
  void CancelAll();

  // Tokens of all calls that have arrived so far.
  int64_t num_tokens() const { return num_tokens_; }
  // Calls that have received a token and have not ended.
  int num_streaming() const { return num_streaming_; }

 private:
  double Now() const;
  void Take(const v1::GenerateResponse& response, EndedCall& call);
  void OnEnd(CallEnd end, EndedCall ended);

  const Clock::time_point start_;
  const std::shared_ptr<Transport> transport_;
  const std::optional<double> timeout_seconds_;
  std::atomic<int64_t> num_tokens_{0};
  std::atomic<int> num_streaming_{0};

  Mutex mutex_;
  CondVar changed_;
  std::unordered_map<uint64_t, std::shared_ptr<TransportCall>> open_
      ABSL_GUARDED_BY(mutex_);
  // Calls that ended before Send() could add them to open_.
  std::unordered_set<uint64_t> ended_early_ ABSL_GUARDED_BY(mutex_);
  int num_open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<EndedCall> ended_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_LOAD_CLIENT_H_
