// Sends a load and gathers what became of it.
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

// How far a run is.
struct Progress {
  double seconds = 0;
  int num_ended = 0;
  int num_failed = 0;
  int in_flight = 0;  // Those that wait at the server included.
  // Requests whose first token has come.
  int streaming = 0;
  int64_t tokens = 0;
};

struct RunnerOptions {
  std::shared_ptr<Transport> transport;  // Not null.
  // The deadline of each call, in seconds after it is sent.
  std::optional<double> timeout_seconds;
  ConversationOptions conversation;
  // How often a request is sent again after a refusal that names a delay, and
  // after UNAVAILABLE: then it goes on from the tokens that had come, or, if
  // the transport cannot ask for that, fails if any had come. So does one that
  // was cancelled before the server saw it.
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

  // Sends everything in the schedule and returns when all has ended. One call
  // at a time.
  RunResult Run(const Workload& workload, ScheduleOptions schedule);

  // From any thread: Run() sends no more, cancels what is in flight, and
  // returns what there is.
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
