// Decides what runs where in the next round, and handles the results of the
// last one.
#ifndef BOLE_SCHEDULER_SERVICE_SCHEDULER_H_
#define BOLE_SCHEDULER_SERVICE_SCHEDULER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/step.h"
#include "common/tokenizer/tokenizer.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/jobs/fair_queue.h"
#include "scheduler_service/jobs/job.h"
#include "scheduler_service/jobs/mailbox.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/policy/goodput_policy.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/speculation.h"
#include "scheduler_service/replicas/replica.h"
#include "scheduler_service/replicas/round_flight.h"
#include "scheduler_service/served_model.h"
#include "scheduler_service/watch/metrics.h"
#include "scheduler_service/watch/model_series.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

struct SchedulerOptions {
  AdmissionLimits admission;
  PolicyKind policy = PolicyKind::kGoodput;
  Speculation speculation;
  int max_running = 256;  // Requests on one worker, if it has room.
  // Rounds that a worker runs without a new plan while nothing waits or is
  // prefilled, if it can. More of them relieve the host, but make new requests
  // and cancellations wait longer.
  int lease_rounds = 4;
  // As ReplicaOptions has it.
  bool prefix_cache = true;
  // As PolicyOptions has them.
  std::chrono::milliseconds max_lease{50};
  double epsilon = 0.1;
  int capacity = 256;
  // How long requests wait for a worker after the last one was lost.
  std::chrono::milliseconds reconnect_grace{30'000};
  // As ReplicaOptions has it.
  std::chrono::milliseconds round_timeout{120'000};
  // While the scheduler drains, release a worker as soon as nothing runs on it,
  // for the other schedulers that share it.
  bool frees_workers_early = false;
  // Records every round. Scheduler fills in the worker's number.
  RoundFlightOptions flight = {};

  PolicyOptions policy_options() const {
    return {.kind = policy,
            .speculation = speculation,
            .lease_rounds = lease_rounds,
            .max_lease = max_lease,
            .epsilon = epsilon,
            .capacity = capacity};
  }
};

// Owns every request from its arrival to its end, and one replica for each
// known worker. It is a state machine without threads: it is given the events
// and the time, and reacts by sending plans and writing streams. Only metrics
// read a clock.
//
// A request waits in the queue of its model for any worker that runs the model.
// When a worker is lost, its requests continue elsewhere, with the same tokens.
// A request under which two workers were lost without a new token in between
// may be the cause: it runs once more, alone, on another worker, and fails if
// that is lost, too, or if there is none.
//
// A worker joins the model that it describes; one that describes another is
// refused. COST of a turn: linear in what changed and in the number of workers.
//
// Not thread-safe.
class Scheduler final : private ReplicaOwner {
 public:
  // Called when a request no longer waits for its first round: it runs, or else
  // it has ended.
  using OnDequeued = std::function<void(const Request&, bool runs)>;

  // Called when a removed worker is not connected any more. Returns true if the
  // worker is released and its client is no longer used; false if it was added
  // again, which an event will report.
  using LetGo = std::function<bool(WorkerId)>;

  // The references must outlive the scheduler.
  Scheduler(const SchedulerOptions& options, const ModelCatalog& catalog,
            Metrics& metrics, OnDequeued on_dequeued, LetGo let_go);

  // Does everything that is due: takes the mail, ends requests that were
  // cancelled or are past their deadline, and sends the next plans to the free
  // workers.
  void Handle(Mail mail, TimePoint now);

  // When Handle() has something to do even without new mail.
  TimePoint NextWakeup() const;

  bool idle() const { return jobs_.empty(); }
  // COST: that of Replica::status(), for each worker.
  SchedulerStatus status();

 private:
  // A job, and where it runs; it waits if `replica` is null.
  struct Entry {
    std::unique_ptr<Job> job;
    Replica* replica = nullptr;
    int64_t share = 0;  // What it holds there (HeldShares).
    // The worker that was lost last while it had a round of this job to run.
    std::string lost_on = {};
  };
  struct Worker {
    std::unique_ptr<Replica> replica;
    bool removed = false;  // Release it once it is not connected.
  };
  // Output for a stream, delivered after the next plans are sent.
  struct Delivery {
    std::shared_ptr<TokenStream> stream;
    std::vector<EmittedToken> tokens;
    std::string text;
    std::vector<EmittedToken> prompt_logprobs;
    std::optional<absl::StatusOr<Completion>> end;
  };

  void OnAdvanced(Job& job, Job::Progress progress) override;
  void OnEnded(Job& job, absl::StatusOr<MatchedStop> end) override;
  void OnDisplaced(Job& job, Displacement reason,
                   const absl::Status& why) override;

  void Accept(std::unique_ptr<Request> request);
  void On(WorkerEvent event);
  void Add(WorkerId id, const WorkerAdded& link);
  void LetGoOfRemoved();
  void Connect(Replica& replica, WorkerConnected event);
  void EndCancelled(const std::vector<JobId>& cancelled);
  void EndOverdue();
  // Ends the waiting requests of models that have had no worker for too long.
  void EndForlorn();
  TimePoint ForlornAt(const ServedModel& model) const;

  void StartRounds();
  // Places waiting jobs, in order, while a worker is free, and ends those that
  // no worker can ever hold.
  void PlaceWaiting(ServedModel& model);
  // Places jobs of tenants that hold little, displacing jobs of tenants that
  // hold most.
  void Preempt(ServedModel& model);
  void Place(Job& job, Replica& replica);
  // Records that the job has no place any more.
  void Unplace(const Job& job);

  // Ends a job, whether it runs or waits.
  void End(Job& job, absl::Status why);
  void EndWaiting(ServedModel& model, const absl::Status& why);
  void EndAll(const absl::Status& why);
  // Ends a job that has no place and does not wait.
  void Finish(Job& job, absl::StatusOr<Completion> end);
  void Deliver();

  ServedModel& ModelOf(const Job& job) {
    return models_.at(job.request().model.value());
  }
  FairQueue& WaitingWith(const Job& job) { return ModelOf(job).waiting(); }
  ModelSeries& SeriesOf(const Job& job) {
    return metrics_.Of(ModelOf(job).name());
  }
  // The description of some worker; null before the first one connects.
  const WorkerDescription* AnyDescription() const;

  const SchedulerOptions options_;
  const ModelCatalog& catalog_;
  Metrics& metrics_;
  const OnDequeued on_dequeued_;
  const LetGo let_go_;
  std::map<WorkerId, Worker> workers_;
  std::vector<ServedModel> models_;                       // By ModelId.
  std::vector<std::shared_ptr<DraftHistory>> histories_;  // By ModelId.

  TimePoint now_;
  bool draining_ = false;
  absl::flat_hash_map<JobId, Entry> jobs_;
  // Jobs without a deadline are left out.
  std::set<std::pair<TimePoint, JobId>> deadlines_;
  std::vector<Delivery> deliveries_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SCHEDULER_H_
