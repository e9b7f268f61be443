// Many Generate calls at once, from few threads.
#ifndef BOLE_CLIENTS_BENCH_LOAD_CLIENT_H_
#define BOLE_CLIENTS_BENCH_LOAD_CLIENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "clients/bench/request_record.h"
#include "common/mutex.h"
#include "grpcpp/channel.h"
#include "proto/bole.grpc.pb.h"

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

// Calls are driven by gRPC's own threads, of which there are as many as cores
// or less; a call costs memory alone. Times of tokens are taken in those
// threads, when a message has been read. Thread-safe.
class LoadClient {
 public:
  // Calls are spread over `channels`, at least one, in turn. `start` is the
  // start of the run; `timeout` bounds each call.
  LoadClient(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
             Clock::time_point start, std::optional<double> timeout_seconds);
  // Cancels what has not ended, and waits for it.
  ~LoadClient();

  LoadClient(const LoadClient&) = delete;
  LoadClient& operator=(const LoadClient&) = delete;

  // Sends a request. `id` is the caller's, and not in use.
  void Send(uint64_t id, v1::GenerateRequest request);

  // The calls that ended since the last time. Waits for one until `deadline`,
  // or until Wake().
  std::vector<EndedCall> TakeEnded(Clock::time_point deadline);

  // TakeEnded() returns, this time or the next.
  void Wake();

  // Every call ends soon, most of them with CANCELLED.
  void CancelAll();

  // Tokens that came so far, of all calls.
  int64_t num_tokens() const { return num_tokens_; }
  // Calls with a token and without an end.
  int num_streaming() const { return num_streaming_; }

 private:
  class Stream;

  double Now() const;
  // Called by the stream as the last thing that it does; destroys it.
  void OnEnd(EndedCall ended);

  const Clock::time_point start_;
  const std::optional<double> timeout_seconds_;
  std::vector<std::unique_ptr<v1::BoleService::Stub>> stubs_;
  std::atomic<int64_t> num_tokens_{0};
  std::atomic<int> num_streaming_{0};

  Mutex mutex_;
  CondVar changed_;
  size_t next_stub_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Stream>> streams_
      ABSL_GUARDED_BY(mutex_);
  // Streams that were not yet destroyed: those above, and those in OnEnd().
  int num_open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<EndedCall> ended_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_LOAD_CLIENT_H_
