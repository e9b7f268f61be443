// One model: the workers that run it, and the requests that wait for them.
#ifndef BOLE_SCHEDULER_SERVICE_SERVED_MODEL_H_
#define BOLE_SCHEDULER_SERVICE_SERVED_MODEL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler_service/jobs/fair_queue.h"
#include "scheduler_service/jobs/job.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/replicas/preemption.h"
#include "scheduler_service/replicas/replica.h"

namespace bole {

// A set of replicas and one queue for all of them. A request gets a place when
// a worker is free to take it: on the one where it is expected to wait least.
//
// Replicas join with a connection and stay until their workers run another
// model. They outlive it.
//
// Not thread-safe.
class ServedModel {
 public:
  explicit ServedModel(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  FairQueue& waiting() { return waiting_; }
  HeldShares& held() { return held_; }  // To be told by who places jobs.
  const FairQueue& waiting() const { return waiting_; }
  // Describes the worker that joined last; null before the first.
  const std::shared_ptr<const WorkerDescription>& description() const {
    return description_;
  }

  // Whether a worker that is described so may join: while workers are connected
  // or requests wait, its vocabulary has to be that of the last that joined.
  // ABORTED, with both values, makes its client stay away for a while.
  absl::Status CheckJoins(const WorkerDescription& worker) const;
  // REQUIRES: it is connected, and CheckJoins() held.
  void Join(Replica& replica);
  void Leave(const Replica& replica);

  // Gives out the pages of the coming rounds on the workers that are free, and
  // moves jobs from those that are to leave to where there is room for them.
  void MakeRoom();
  // Where `job`, the next of those that wait, gets its place now; null if it
  // has to wait. A suspect gets none on the worker `lost_on`, which was lost
  // last under it. Errors:
  //   INVALID_ARGUMENT  no worker can ever hold it.
  //   UNAVAILABLE       a suspect finds no other worker than that.
  // COST: O(placements of the model), and if one has a place that of looking
  // for the job's tokens on all that have.
  absl::StatusOr<Replica*> PlaceFor(const Job& job, const std::string& lost_on,
                                    TimePoint now);
  // The most tokens of `job` that a worker other than `replica` has cached,
  // whether it has room or not.
  // COST: that of looking for the job's tokens on all of them.
  int CachedElsewhere(const Job& job, const Replica& replica) const;
  // Nothing new comes: lets the workers go on which nothing runs, unless
  // somebody waits.
  void CloseEmpty();
  // Whose place somebody else should have now.
  struct Preemption {
    Job* job;          // The one that gets it, of those that wait.
    Replica* replica;  // Which is free, and has room once the victims leave.
    std::vector<Job*> victims;
  };
  // If no worker has room for the next job of the tenant that holds least of
  // those that wait, and others hold more than their share (FindVictims()).
  // None for a tenant that was ahead of them before it had to wait: it has had
  // its share.
  // COST: O(tenants that wait + placements of the free workers).
  std::optional<Preemption> FindPreemption() const;
  // Sends the next plans. REQUIRES: MakeRoom().
  void StartRounds(TimePoint now);

  // Requests that have a place.
  int num_running() const;
  bool IsAnyConnected() const;
  // When its last worker was lost, and why; nothing if one is connected.
  struct Loss {
    TimePoint at;
    std::string why;
  };
  std::optional<Loss> loss() const;
  // When somebody waits for a worker whose round should have ended then,
  // although another one is free; max() if nobody does.
  TimePoint look_again() const { return look_again_; }
  // Requests wait, and nothing would wake them.
  bool IsStalled() const;

 private:
  void MoveFrom(Replica& draining);
  absl::Status CheckOtherThan(const std::string& lost_on) const;
  // Whether `job` may be placed on a replica that has room for it. One that is
  // on trial gets one job at a time, and none that has lost a worker already
  // while another replica can take it.
  bool MayTry(const Replica& replica, const Job& job) const;
  // The next job of the tenant that holds least; null if nobody waits.
  Job* PoorestThatWaits() const;

  const std::string name_;
  std::vector<Replica*> replicas_;
  FairQueue waiting_;
  HeldShares held_;
  std::shared_ptr<const WorkerDescription> description_;
  // Of the replica that left last without a connection.
  Loss last_loss_{.at = TimePoint(), .why = "none was there yet"};
  TimePoint look_again_ = TimePoint::max();
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SERVED_MODEL_H_
