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

// The processes of all ranks of a group but the first, which is this process.
// They end when this process does, in whatever way. SIGTERM, SIGINT and SIGUSR1
// do not end them, which may be sent to all processes of a terminal or of a
// name, and which the first rank minds. Their standard output goes where this
// process's standard error goes.
//
// Thread-safe.
class RankProcesses {
 public:
  // Starts `program` once for each rank (RunIfRankProcess). A process that ends
  // before the destructor runs ends the group with UNAVAILABLE, which names the
  // rank and how it ended. Errors name the program.
  static absl::StatusOr<std::unique_ptr<RankProcesses>> Start(
      std::shared_ptr<RankGroup> group, const std::string& program);
  // Waits kTimeToEnd for the processes to end, which they do when the channel
  // of plans is closed or the group has ended, and then kills them.
  ~RankProcesses();
  static constexpr std::chrono::seconds kTimeToEnd{2};

  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // Calls `on_lost` once, with what ended the group, when a process ends on its
  // own, or at once if one has already. The call comes from a thread of its
  // own, and must not destroy this. Null: never again; waits for a call that is
  // under way.
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

  // All below is for the thread, which lives as long as this: the system kills
  // a child when the thread that started it ends.
  void Run(const std::string& program);
  absl::Status StartChild(const std::string& program, int rank);
  // Waits for the end of a child, for Wake(), or for `limit`; below 0: none.
  void AwaitEvent(std::chrono::milliseconds limit);
  // Takes note of the children that have ended. Returns how many run.
  int Reap(bool is_expected);
  void TellIfLost();
  void EndChildren();

  void Wake();

  const std::shared_ptr<RankGroup> group_;
  const int event_;  // An eventfd: something below has changed.
  std::vector<Child> children_;

  Mutex mutex_;
  CondVar started_;
  std::optional<absl::Status> start_ ABSL_GUARDED_BY(mutex_);
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_lost_ ABSL_GUARDED_BY(mutex_) = false;
  OnLost on_lost_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // Uses the rest.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANK_PROCESSES_H_
