// The decisions: what runs where in the next round, and what became of the
// last.
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
  int max_running = 256;  // Requests that run on one worker, if it can.
  // Rounds that a worker runs by itself while nothing waits or is prefilled, if
  // it can. More of them spare the host, and make new requests and
  // cancellations wait for longer.
  int lease_rounds = 4;
  // As ReplicaOptions has it.
  bool prefix_cache = true;
  // As PolicyOptions has them.
  std::chrono::milliseconds max_lease{50};
  double epsilon = 0.1;
  int capacity = 256;
  // Requests wait for so long for a worker after the last one was lost.
  std::chrono::milliseconds reconnect_grace{30'000};
  // As ReplicaOptions has it.
  std::chrono::milliseconds round_timeout{120'000};
  // While it drains, a worker on which nothing runs is let go at once, for the
  // schedulers with which it is shared.
  bool frees_workers_early = false;
  // Of every round; the worker's number is filled in.
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
// worker that it was told of. A state machine without threads: it is told what
// came and what time it is, and answers by sending plans and writing streams.
// Only metrics read a clock.
//
// A request waits in the queue of its model for any worker that runs it. When a
// worker is lost, those that ran there go on elsewhere, with the same tokens.
// Those under which two were lost with no new token between may be what kills
// them: they run alone once more, on another worker, and fail if that is lost,
// too, or if there is none.
//
// A worker joins the model that it describes; one that describes another is
// refused. COST of a turn: what changed, and the number of workers.
//
// Not thread-safe.
class Scheduler final : private ReplicaOwner {
 public:
  // A request no longer waits for its first round: it runs, or else it ended.
  using OnDequeued = std::function<void(const Request&, bool runs)>;

  // A worker that was removed is lost. Returns true if it is let go, and its
  // client not used any more; false if it was added again, which will be told.
  using LetGo = std::function<bool(WorkerId)>;

  // The references must outlive the scheduler.
  Scheduler(const SchedulerOptions& options, const ModelCatalog& catalog,
            Metrics& metrics, OnDequeued on_dequeued, LetGo let_go);

  // Everything that is due: takes the mail, ends what was cancelled or is late,
  // and sends the next plans to the workers that are free.
  void Handle(Mail mail, TimePoint now);

  // When Handle() has something to do even if nothing comes.
  TimePoint NextWakeup() const;

  bool idle() const { return jobs_.empty(); }
  // COST: that of Replica::status(), for each worker.
  SchedulerStatus status();

 private:
  // A job, and where it runs; it waits if that is null.
  struct Entry {
    std::unique_ptr<Job> job;
    Replica* replica = nullptr;
    int64_t share = 0;  // What it holds there (HeldShares).
    // The worker that was lost last with a round of it on its way.
    std::string lost_on = {};
  };
  struct Worker {
    std::unique_ptr<Replica> replica;
    bool removed = false;  // To be let go once it is not connected.
  };
  // What a stream is told once the next plans are on their way.
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
  // Ends what waits for a model that has had no worker for too long.
  void EndForlorn();
  TimePoint ForlornAt(const ServedModel& model) const;

  void StartRounds();
  // Gives places to those that wait, in order, while a worker is free, and ends
  // those that no worker can ever hold.
  void PlaceWaiting(ServedModel& model);
  // Places jobs of tenants that hold little instead of those that hold most.
  void Preempt(ServedModel& model);
  void Place(Job& job, Replica& replica);
  // The job has no place any more.
  void Unplace(const Job& job);

  // Ends a job wherever it is.
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
  // What some worker describes; null before the first.
  const WorkerDescription* AnyDescription() const;

  const SchedulerOptions options_;
  const ModelCatalog& catalog_;
  Metrics& metrics_;
  const OnDequeued on_dequeued_;
  const LetGo let_go_;
  std::map<WorkerId, Worker> workers_;
  std::vector<ServedModel> models_;                       // By ModelId.
  std::vector<std::shared_ptr<DraftHistory>> histories_;  // The same.

  TimePoint now_;
  bool draining_ = false;
  absl::flat_hash_map<JobId, Entry> jobs_;
  // Jobs without a deadline are left out.
  std::set<std::pair<TimePoint, JobId>> deadlines_;
  std::vector<Delivery> deliveries_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SCHEDULER_H_
