// Sends a load and collects the results.
#ifndef BOLE_CLIENTS_BENCH_RUNNER_H_
#define BOLE_CLIENTS_BENCH_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "clients/bench/conversation.h"
#include "clients/bench/load_client.h"
#include "clients/bench/request_record.h"
#include "clients/bench/schedule.h"
#include "clients/bench/transport.h"
#include "clients/bench/workload.h"
#include "common/mutex.h"

namespace bole::bench {

// The progress of a run.
struct Progress {
  double seconds = 0;
  int num_ended = 0;
  int num_failed = 0;
  int in_flight = 0;  // Including those that wait at the server.
  // Requests whose first token has come.
  int streaming = 0;
  int64_t tokens = 0;
};

struct RunnerOptions {
  std::shared_ptr<Transport> transport;  // Not null.
  // The deadline of each call, in seconds after it is sent.
  std::optional<double> timeout_seconds;
  ConversationOptions conversation;
  // How often a request is sent again after a refusal that names a delay, after
  // UNAVAILABLE, and if it was cancelled before the server saw it. After
  // UNAVAILABLE it resumes after the tokens that had arrived; if the transport
  // cannot resume, it fails if there were any.
  int max_retries = 0;
  std::function<void(const Progress&)> on_progress = [](const Progress&) {};
  double progress_seconds = 0.25;
};

struct RunResult {
  // Records in the order in which the requests ended.
  std::vector<RequestRecord> records;
  int num_dropped = 0;  // The schedule's.
  bool interrupted = false;
};

class Runner {
 public:
  explicit Runner(RunnerOptions options);

  // Sends everything in the schedule and returns when all requests have ended.
  // Only one call may be in progress at a time.
  RunResult Run(const Workload& workload, ScheduleOptions schedule);

  // May be called from any thread. Run() then sends nothing more, cancels the
  // requests in flight, and returns the results so far.
  void Interrupt();

 private:
  class State;

  const RunnerOptions options_;
  Mutex mutex_;
  LoadClient* client_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_RUNNER_H_
