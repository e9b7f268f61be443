// The scheduler's view of one worker.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_REPLICA_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_REPLICA_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "scheduler_service/jobs/job.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/policy/goodput_policy.h"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/replicas/placement.h"
#include "scheduler_service/replicas/placements.h"
#include "scheduler_service/replicas/planner.h"
#include "scheduler_service/replicas/prefix_cache.h"
#include "scheduler_service/replicas/round_flight.h"
#include "scheduler_service/replicas/round_in_flight.h"
#include "scheduler_service/replicas/round_pace.h"
#include "scheduler_service/replicas/router.h"
#include "scheduler_service/replicas/told_spans.h"
#include "scheduler_service/replicas/validate_result.h"
#include "scheduler_service/watch/metrics.h"
#include "scheduler_service/watch/model_series.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

struct ReplicaOptions {
  int max_running = 256;  // Requests that run together, if the worker can.
  // A worker that does not answer a round within this time counts as lost, even
  // if its connection is alive. A round that prefills gets the same time in
  // addition for every kTokensPerRoundTimeout tokens.
  std::chrono::milliseconds round_timeout{120'000};
  PolicyOptions policy;
  // Whether prefixes are kept on the worker, if it can copy them.
  bool prefix_cache = true;
  RoundFlightOptions flight = {};
};

// Why a job has no place any more although it has not ended.
enum class Displacement {
  kEvicted,      // Earlier jobs need its pages.
  kPreempted,    // A tenant that holds less needs its place.
  kMoved,        // The worker is draining, and another one has room.
  kLost,         // The worker is gone; no round of the job was on its way.
  kLostInRound,  // The worker is gone, with a round of the job on its way.
};

// Its name in metrics: "lost".
const char* NameOf(Displacement reason);

// Receives news of the jobs that a replica runs. These functions may not call
// the replica.
class ReplicaOwner {
 public:
  virtual ~ReplicaOwner() = default;

  // New output, at least one token.
  virtual void OnAdvanced(Job& job, Job::Progress progress) = 0;
  // The job ended by `end`, or failed. It has no place any more.
  virtual void OnEnded(Job& job, absl::StatusOr<MatchedStop> end) = 0;
  // The job has no place any more. `why`: for a loss, what happened to the
  // worker.
  virtual void OnDisplaced(Job& job, Displacement reason,
                           const absl::Status& why) = 0;
};

// The link to a worker, its description, its placements, and the plan that is
// on its way to it. A state machine without threads or clocks: it is given
// events and the time, and reacts by sending plans and telling its owner. Only
// metrics read a clock. It knows no other replica.
//
// One plan is on its way at a time: a round, or a lease of several, whose
// results come one by one. A job that is dropped gives back its slot and pages
// at once: the worker runs plans in order, so whoever gets them next writes
// after the plan on its way.
//
// Nothing that a worker returns is used before ValidateResult() has accepted
// it. A worker that answers wrongly, or not in time, is disconnected, and its
// jobs are displaced. A job that may be the cause of such things
// (Job::is_suspect()) runs as the only one of its plans while the others wait,
// so that no job fails because of another one.
//
// Not thread-safe.
class Replica {
 public:
  // The references must outlive the replica.
  Replica(const WorkerAdded& link, const ReplicaOptions& options,
          Metrics& metrics, ReplicaOwner& owner);

  const std::string& name() const { return link_.name; }
  bool connected() const { return connection_.has_value(); }
  // Whether it is connected, and may be given jobs.
  bool accepts() const;
  bool draining() const { return connected() && connection_->draining; }
  // Whether it is connected, and no plan is on its way.
  bool free() const { return connected() && !connection_->in_flight; }
  int num_running() const;
  // Whether its worker was lost and has not answered a round since. It may be
  // lost again at once, and with it every job that is placed here.
  bool on_trial() const { return on_trial_; }
  // Whether it can hold the job, and is not on trial.
  bool CanBeTrustedWith(const Job& job) const;
  TimePoint lost_at() const { return lost_at_; }
  const std::string& last_error() const { return last_error_; }
  // Describes the worker that is, or was last, connected; null before the
  // first.
  const std::shared_ptr<const WorkerDescription>& description() const {
    return description_;
  }

  // `history` is that of the worker's model, which the scheduler serves by the
  // name `model`.
  // REQUIRES: !connected(), and a higher epoch than before.
  void On(
      WorkerConnected event,
      std::shared_ptr<DraftHistory> history = std::make_shared<DraftHistory>(),
      const std::string& model = "");
  // Ends the connection of `event`, which is not wanted.
  // REQUIRES: the same.
  void Refuse(const WorkerConnected& event, const absl::Status& why);
  // More news of the worker. News of an epoch that has ended is ignored.
  void On(WorkerOutcome event, TimePoint now);
  void On(const WorkerDraining& event);
  void On(const WorkerLost& event, TimePoint now);
  // Drops the connection, if there is one, and displaces its jobs.
  void GiveUp(const absl::Status& why, TimePoint now);
  // Disconnects the worker if the round on its way is late.
  void CheckDeadline(TimePoint now);
  // When CheckDeadline() has something to do; max() if no round is on its way.
  TimePoint deadline() const;

  // REQUIRES: connected().
  const Placements& placements() const { return connection_->placements; }
  // What the job would find here. REQUIRES: accepts().
  // COST: O(placements + tokens of the job).
  RouteOption OptionFor(const Job& job, TimePoint now) const;
  // Places the job. `cached_elsewhere`: the most tokens of it that another
  // worker has.
  // REQUIRES: accepts(), free(), and placements() has room for the job.
  void Place(Job& job, int cached_elsewhere);
  // Removes the job, without telling the owner. REQUIRES: it is placed here.
  void Drop(const Job& job);
  // Removes the job, and tells the owner why. REQUIRES: the same.
  void Displace(Job& job, Displacement reason);

  // Gives out the pages for the coming round. If a job had to be evicted for
  // them, no job is accepted until the round is sent. REQUIRES: free().
  void MakeRoom();
  // Closes the connection if nothing runs there; nothing will. REQUIRES:
  // free().
  void CloseIfEmpty();
  // Sends the next plan, if there is anything to run, or closes the connection
  // of a draining worker that has nothing to run. REQUIRES: free(), MakeRoom().
  void StartRound(bool others_wait, TimePoint now);

  // COST: O(slots + pages), for the audit, if anything changed since the last
  // call.
  const WorkerStatus& status();

 private:
  // Everything that ends with a connection.
  struct Connection {
    Connection(const WorkerDescription& worker,
               std::unique_ptr<RoundPolicy> its_policy,
               const ReplicaOptions& options);

    const std::unique_ptr<RoundPolicy> policy;
    const PlanOptions plan_options;
    Placements placements;
    std::optional<RoundInFlight> in_flight;
    uint64_t next_plan_number = 1;
    bool draining = false;
    bool closed = false;    // It drains, and was told to leave.
    bool evicting = false;  // A job was evicted for the coming round.
    ToldSpans told_spans;
    RoundPace pace;
    std::optional<TimePoint> outcome_at;  // Since then the worker waits.
  };

  void Disconnect(const absl::Status& why, TimePoint now);
  // The worker refused the plan on its way: each of its jobs then runs alone
  // once, and a job that is refused when alone fails.
  void FailRound(const absl::Status& refusal, TimePoint now);
  // Applies a result of the round on its way, which ValidateResult() has
  // accepted. Returns the metrics of the whole round.
  RoundMetrics Apply(StepResult result);
  // How a round affects a placement. `deferred`: as in Placement::Advance().
  // `is_last`: no other round of the placement is on its way.
  struct Advanced {
    bool deferred = false;
    bool is_last = true;
  };
  void Advance(Placement& placement, SequenceResult result, const Advanced& how,
               RoundMetrics& metrics);
  // Counts what a job has found in the cache, for its usage and for metrics.
  void CountPrefix(Job& job, const PrefixCache::Match& match);
  void Drop(Placement& placement, bool keep);
  void End(Placement& placement, absl::StatusOr<MatchedStop> end, bool keep);
  // The placements that run in the next round: a suspect alone, or else all.
  std::span<const std::unique_ptr<Placement>> Coming() const;
  void UpdateStatus();

  const WorkerAdded link_;
  const ReplicaOptions options_;
  Metrics& metrics_;
  ReplicaOwner& owner_;
  const RoundFlight flight_;

  std::string model_;              // As given to On().
  ModelSeries* series_ = nullptr;  // For model_. Null before the first worker.
  std::optional<Connection> connection_;
  std::shared_ptr<const WorkerDescription> description_;
  uint64_t epoch_ = 0;
  std::string last_error_ = "no worker has connected yet";
  TimePoint lost_at_;
  bool on_trial_ = false;
  WorkerStatus status_;
  bool changed_ = true;  // Since status_ was made.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_REPLICA_H_
