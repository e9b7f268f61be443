// A scheduler, its workers and its clients in virtual time.
#ifndef BOLE_TESTS_SIMULATION_VIRTUAL_FLEET_H_
#define BOLE_TESTS_SIMULATION_VIRTUAL_FLEET_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "scheduler_service/jobs/mailbox.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/scheduler.h"
#include "scheduler_service/watch/metrics.h"
#include "tests/simulation/simulated_text.h"
#include "tests/simulation/virtual_worker.h"

namespace bole::simulation {

// What a client asks, greedily.
struct Question {
  std::string tenant = {};
  std::string cache_salt = {};
  int priority = 0;
  std::vector<int32_t> prompt;
  int max_tokens = 1;
  TimePoint deadline = TimePoint::max();
  LatencyTargets targets = {};
};

// What became of it.
struct Answer {
  Question question;
  TimePoint arrival;
  std::optional<TimePoint> first_token;
  TimePoint end;
  std::vector<int32_t> tokens;
  absl::Status status;
  // The tokens are the first of those that the model writes, and all of them if
  // it ended well.
  bool is_right = false;

  double ttft_seconds() const {
    return std::chrono::duration<double>(*first_token - arrival).count();
  }
};

struct VirtualFleetOptions {
  SchedulerOptions scheduler;
  std::vector<VirtualWorkerOptions> workers;
  TextOptions text = LetterText();  // As the workers have it.
  bool audit = false;               // After every turn of the scheduler.
};

// Runs the scheduler's state machine and its mailbox as SchedulerLoop does, but
// on the caller's thread and by a clock that jumps from one event to the next:
// an arrival, the end of a round, a wakeup of the scheduler. The scheduler
// itself takes no time. The same calls give the same events.
//
// Not thread-safe.
class VirtualFleet {
 public:
  explicit VirtualFleet(VirtualFleetOptions options);

  VirtualFleet(const VirtualFleet&) = delete;
  VirtualFleet& operator=(const VirtualFleet&) = delete;

  TimePoint now() const { return now_; }
  // Runs `action` at `time`, or now if that has passed; those of one time in
  // the order of their calls.
  void At(TimePoint time, std::function<void()> action);

  // Everything that is due until `end`.
  void RunUntil(TimePoint end);
  // The same, but until no request is left.
  void RunUntilIdle(TimePoint end);

  // Asks now. `on_end` is told once, when it has ended. Returns the stream, to
  // cancel it; null if it was refused. Called from an action, so that the
  // scheduler looks at it at once.
  using OnEnd = std::function<void(const Answer&)>;
  std::shared_ptr<TokenStream> Ask(Question question, OnEnd on_end);
  // Those that have not ended.
  size_t num_open() const { return open_.size(); }

  // A worker comes, or it goes for good when it is lost the next time.
  void Add(int worker);
  void Remove(int worker);
  VirtualWorker& worker(int i) { return *workers_[i]; }
  int num_workers() const { return static_cast<int>(workers_.size()); }

  Scheduler& scheduler() { return *scheduler_; }
  Metrics& metrics() { return metrics_; }
  int64_t num_rounds() const;
  int64_t num_turns() const { return num_turns_; }
  // What was wrong first, by an audit or a worker; empty if nothing was.
  std::string problem() const;

 private:
  struct Open {
    Answer answer;
    std::shared_ptr<TokenStream> stream;
    OnEnd on_end;
  };

  // Lets time pass to the next thing that is due, and does it. Returns false if
  // that is after `end`.
  bool Step(TimePoint end);
  void Turn();
  void Read(uint64_t id);

  const VirtualFleetOptions options_;
  const ModelCatalog catalog_;
  Metrics metrics_;
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  Mailbox mailbox_;
  std::map<std::pair<TimePoint, uint64_t>, std::function<void()>> events_;
  uint64_t num_events_ = 0;
  std::vector<std::unique_ptr<VirtualWorker>> workers_;
  std::unique_ptr<Scheduler> scheduler_;
  absl::flat_hash_map<uint64_t, Open> open_;
  uint64_t num_asked_ = 0;
  std::vector<uint64_t> ready_;  // Of these something can be read.
  int64_t num_turns_ = 0;
  std::string audit_;
};

}  // namespace bole::simulation

#endif  // BOLE_TESTS_SIMULATION_VIRTUAL_FLEET_H_
