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
// a worker is free to take it, on the worker where it is expected to wait
// least.
//
// Replicas join when they connect, and stay until their workers run another
// model. They outlive this object.
//
// Not thread-safe.
class ServedModel {
 public:
  explicit ServedModel(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  FairQueue& waiting() { return waiting_; }
  HeldShares& held() { return held_; }  // Updated by the caller.
  const FairQueue& waiting() const { return waiting_; }
  // The description of the worker that joined last; null before the first.
  const std::shared_ptr<const WorkerDescription>& description() const {
    return description_;
  }

  // Whether a worker with this description may join: while workers are
  // connected or requests wait, its vocabulary must equal that of the last one
  // that joined. Otherwise ABORTED, with both values; its client then stays
  // away for a while.
  absl::Status CheckJoins(const WorkerDescription& worker) const;
  // REQUIRES: it is connected, and CheckJoins() held.
  void Join(Replica& replica);
  void Leave(const Replica& replica);

  // Allocates the pages of the next rounds on the free workers, and moves jobs
  // from draining workers to others that have room.
  void MakeRoom();
  // The replica on which `job`, the next waiting one, gets its place now; null
  // if it has to wait. A suspect gets none on the worker `lost_on`, which was
  // the last one lost under it. Errors:
  //   INVALID_ARGUMENT  no worker can ever hold it.
  //   UNAVAILABLE       a suspect finds no worker other than that.
  // COST: O(placements of the model); if a free worker has room, also that of
  // looking up the job's tokens on every worker that has room.
  absl::StatusOr<Replica*> PlaceFor(const Job& job, const std::string& lost_on,
                                    TimePoint now);
  // The most tokens of `job` that a worker other than `replica` has cached,
  // whether it has room or not.
  // COST: that of looking up the job's tokens on all of them.
  int CachedElsewhere(const Job& job, const Replica& replica) const;
  // To be called while the scheduler drains: releases the workers on which
  // nothing runs, unless requests wait.
  void CloseEmpty();
  // Jobs whose places another job should have now.
  struct Preemption {
    Job* job;          // The waiting job that gets the place.
    Replica* replica;  // Free, and has room once the victims leave.
    std::vector<Job*> victims;
  };
  // Finds a preemption for the next job of the waiting tenant that holds least,
  // if no worker has room for it and others hold more than their share
  // (FindVictims()). There is none for a tenant that was served so many more
  // tokens than the victims' tenant that it has had its share.
  // COST: O(waiting tenants + placements of the free workers).
  std::optional<Preemption> FindPreemption() const;
  // Sends the next plans. REQUIRES: MakeRoom().
  void StartRounds(TimePoint now);

  // Requests that have a place.
  int num_running() const;
  bool IsAnyConnected() const;
  // When the model's last worker was lost, and why; nothing if one is
  // connected.
  struct Loss {
    TimePoint at;
    std::string why;
  };
  std::optional<Loss> loss() const;
  // A request may wait for a busy worker although another one is free. This is
  // when that worker's round should have ended; max() if no request does so.
  TimePoint look_again() const { return look_again_; }
  // Whether requests wait and a worker accepts jobs, but no round runs whose
  // end would wake them.
  bool IsStalled() const;

 private:
  void MoveFrom(Replica& draining);
  absl::Status CheckOtherThan(const std::string& lost_on) const;
  // Whether `job` may be placed on a replica that has room for it. A replica on
  // trial gets one job at a time, and no job under which a worker was lost
  // while another replica can take that job.
  bool MayTry(const Replica& replica, const Job& job) const;
  // The next job of the waiting tenant that holds least; null if none waits.
  Job* PoorestThatWaits() const;

  const std::string name_;
  std::vector<Replica*> replicas_;
  FairQueue waiting_;
  HeldShares held_;
  std::shared_ptr<const WorkerDescription> description_;
  // The loss of the replica that last left without a connection.
  Loss last_loss_{.at = TimePoint(), .why = "none was there yet"};
  TimePoint look_again_ = TimePoint::max();
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_SERVED_MODEL_H_
