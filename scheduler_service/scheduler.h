// The decisions: what runs in the next round, and what became of the last.
#ifndef BOLE_SCHEDULER_SERVICE_SCHEDULER_H_
#define BOLE_SCHEDULER_SERVICE_SCHEDULER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"
#include "scheduler_service/batch.h"
#include "scheduler_service/budget_policy.h"
#include "scheduler_service/mailbox.h"
#include "scheduler_service/metrics.h"
#include "scheduler_service/planner.h"
#include "scheduler_service/scheduler_status.h"
#include "scheduler_service/sequence.h"
#include "scheduler_service/speculation.h"
#include "scheduler_service/validate_result.h"
#include "scheduler_service/worker_client.h"

namespace bole {

inline constexpr int kTokensPerRoundTimeout = 1024;

struct SchedulerOptions {
  AdmissionLimits admission;
  Speculation speculation;
  int max_running = 256;  // Requests that run together, if the worker can.
  // Rounds that a worker runs by itself while nothing waits or is prefilled, if
  // it can. More of them spare the host, and make new requests and
  // cancellations wait for longer.
  int lease_rounds = 4;
  // Requests wait for so long for a worker that was lost to come back.
  std::chrono::milliseconds reconnect_grace{30'000};
  // A worker that does not answer a round within this time is lost, although it
  // is heard of. A round that prefills gets as much again for every
  // kTokensPerRoundTimeout tokens.
  std::chrono::milliseconds round_timeout{120'000};
};

// Owns every request from its arrival to its end, and all numbers of slots and
// pages. A state machine without threads: it is told what came and what time it
// is, and answers by sending plans and writing streams. Only metrics read a
// clock.
//
// One plan is on its way at a time: a round, or a lease of several, whose
// results come one by one. A request that ends gives everything back
// at once: the worker runs plans in order, so that whoever gets the numbers
// next writes after the plan on its way.
//
// Nothing that a worker returns is used before ValidateResult() has accepted
// it. A worker that answers wrongly, or not in time, is disconnected, and its
// requests go on with the next connection.
//
// Not thread-safe.
class Scheduler {
 public:
  // A request no longer waits for its first round: it runs, or it ended.
  using OnDequeued = std::function<void(const Request&)>;

  // The references must outlive the scheduler.
  Scheduler(const SchedulerOptions& options, const Tokenizer& tokenizer,
            Metrics& metrics, WorkerClient& worker, OnDequeued on_dequeued);

  // Everything that is due: takes the mail, ends what was cancelled or is late,
  // and sends the next plan if the worker is free.
  void Handle(Mail mail, TimePoint now);

  // When Handle() has something to do even if nothing comes.
  TimePoint NextWakeup() const;

  bool idle() const { return waiting_.empty() && NumRunning() == 0; }
  // COST: O(slots + pages), for the audit.
  SchedulerStatus status() const;

 private:
  // The plan that the worker has, and the sequences that it is about, null for
  // those that ended meanwhile.
  struct InFlight {
    uint64_t plan_number;
    AwaitedRound awaited;
    std::vector<Sequence*> prefills;
    std::vector<Sequence*> sequences;
    TimePoint sent;      // For a lease, the arrival time of its latest result.
    TimePoint deadline;  // When the awaited round is late.
    RoundMetrics metrics;
  };
  // What a stream is told once the next plan is on its way.
  struct Delivery {
    std::shared_ptr<TokenStream> stream;
    std::vector<EmittedToken> tokens;
    std::string text;
    std::optional<absl::StatusOr<Completion>> end;
  };

  void On(WorkerConnected event);
  void On(WorkerOutcome event);
  void On(const WorkerDraining& event);
  void On(const WorkerLost& event);
  // The worker refused the plan in flight: its requests fail, others go on.
  void FailRound(const absl::Status& refusal);
  // Gives the worker up, and sends its requests back to wait.
  void Disconnect(const absl::Status& why);
  // A result of the round in flight that ValidateResult() accepts.
  void Apply(StepResult result);
  void Advance(Sequence& sequence, SequenceResult result,
               RoundMetrics& metrics);

  void StartRound();
  void Lend(PlannedRound& round);
  void Admit();
  void Sweep();
  // When the worker has to have answered a round of `plan` that starts now.
  TimePoint DeadlineOf(const StepPlan& plan) const;
  // Disconnects the worker if the round in flight is late.
  void CheckDeadline();
  // Puts it among the waiting ones, by its arrival.
  void Enqueue(std::unique_ptr<Sequence> sequence);
  absl::Status OverdueOrCancelled(const Sequence& sequence) const;

  int NumRunning() const;
  // Whether the worker has nothing to do although requests could run. Never
  // after Handle(): nothing would wake the loop.
  bool IsStalled() const;
  void End(Sequence& running, absl::StatusOr<Completion> end);
  // Ends a sequence that holds neither slot nor pages.
  void Finish(std::unique_ptr<Sequence> sequence,
              absl::StatusOr<Completion> end);
  void EndAll(const absl::Status& why);
  void EndWaiting(const absl::Status& why);
  Completion CompletionOf(const Sequence& sequence, MatchedStop matched) const;
  void Deliver();

  const SchedulerOptions options_;
  const Tokenizer& tokenizer_;
  Metrics& metrics_;
  WorkerClient& worker_;
  const OnDequeued on_dequeued_;

  TimePoint now_;
  // In the order of their arrival.
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::optional<Batch> batch_;  // While a worker is connected.
  std::optional<InFlight> in_flight_;
  std::vector<Delivery> deliveries_;

  std::shared_ptr<const WorkerDescription> description_;
  PlanOptions plan_options_;
  std::unique_ptr<const BudgetPolicy> budget_;
  uint64_t epoch_ = 0;
  uint64_t next_plan_number_ = 1;
  bool worker_draining_ = false;
  bool closed_ = false;  // The draining worker was told that it can leave.
  std::string last_error_ = "no worker has connected yet";
  TimePoint lost_at_;
  std::optional<TimePoint> outcome_at_;  // Since when the worker waits.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SCHEDULER_H_
