// Ranks that are processes.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANK_PROCESSES_H_
#define BOLE_WORKER_SERVICE_RANKS_RANK_PROCESSES_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "worker_service/ranks/rank_group.h"

namespace bole {

// The processes of all ranks of a group except the first, which is this
// process. They end when this process does, however it ends. They block
// SIGTERM, SIGINT and SIGUSR1, which may be sent to all processes of a terminal
// or of a name and are handled by the first rank. Their standard output goes to
// this process's standard error.
//
// Thread-safe.
class RankProcesses {
 public:
  // Starts `program` once for each rank (RunIfRankProcess). If a process ends
  // before the destructor runs, the group ends with UNAVAILABLE, naming the
  // rank and how its process ended. Errors name the program.
  static absl::StatusOr<std::unique_ptr<RankProcesses>> Start(
      std::shared_ptr<RankGroup> group, const std::string& program);
  // Waits for the processes to end, which they do when the channel of plans is
  // closed or the group has ended, and kills them after kTimeToEnd.
  ~RankProcesses();
  static constexpr std::chrono::seconds kTimeToEnd{2};

  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // Calls `on_lost` once, with the error that ended the group, when a process
  // ends on its own, or at once if one already has. The call comes from a
  // separate thread and must not destroy this object. Null removes the
  // callback, after waiting for a call that is running.
  using OnLost = std::function<void(const absl::Status& why)>;
  void Watch(OnLost on_lost);

 private:
  struct Child {
    int rank;
    pid_t pid;
    int descriptor;  // A pidfd, or -1 once the process has ended.
  };

  RankProcesses(std::shared_ptr<RankGroup> group, int event)
      : group_(std::move(group)), event_(event) {}

  // The functions below run on `thread_`, which lives as long as this object,
  // because the system kills a child when the thread that started it ends.
  void Run(const std::string& program);
  absl::Status StartChild(const std::string& program, int rank);
  // Waits for the end of a child, for Wake(), or for `limit`; if it is
  // negative, without limit.
  void AwaitEvent(std::chrono::milliseconds limit);
  // Records the children that have ended. Returns how many are still running.
  int Reap(bool is_expected);
  void TellIfLost();
  void EndChildren();

  void Wake();

  const std::shared_ptr<RankGroup> group_;
  const int event_;  // An eventfd, signalled when members change.
  std::vector<Child> children_;

  Mutex mutex_;
  CondVar started_;
  std::optional<absl::Status> start_ ABSL_GUARDED_BY(mutex_);
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_lost_ ABSL_GUARDED_BY(mutex_) = false;
  OnLost on_lost_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // Uses all other members.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANK_PROCESSES_H_
