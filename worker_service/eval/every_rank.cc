#include "worker_service/eval/every_rank.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker_service/ranks/host_communicator.h"
#include "worker_service/ranks/rank_group.h"

namespace bole {
namespace {

using Run = std::function<absl::Status(std::shared_ptr<Communicator>)>;

// Calls `run` and, if it succeeds, waits until all ranks are done.
absl::Status RunToTheEnd(const Run& run,
                         const std::shared_ptr<RankGroup>& group, int rank) {
  const std::shared_ptr<Communicator> ranks = MakeHostCommunicator(group, rank);
  absl::Status status = run(ranks);
  if (status.ok()) return ranks->AllGather({}, {});
  ranks->Abort(status);
  return status;
}

// Runs a forked copy of this process as a rank, and ends it.
[[noreturn]] void BeRank(const RankGroup& parents, int rank, const Run& run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parents.owner()) _exit(1);
  absl::StatusOr<std::shared_ptr<RankGroup>> group =
      RankGroup::Join(parents.descriptor());
  absl::Status status = group.status();
  if (status.ok() && std::freopen("/dev/null", "w", stdout) == nullptr) {
    status = absl::InternalError("standard output cannot be closed");
  }
  if (status.ok()) status = RunToTheEnd(run, *group, rank);
  // Skip destructors, which might wait for a device that hangs.
  _exit(status.ok() ? 0 : 1);
}

// Waits for the process of a rank, and ends the group if it failed.
void Follow(pid_t pid, int rank, RankGroup& group) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  group.End(
      0,
      absl::UnavailableError(absl::StrCat(
          "rank ", rank,
          WIFSIGNALED(status) ? " was ended by signal " : " ended with status ",
          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status))));
}

}  // namespace

absl::Status OnEveryRank(int num_ranks, const Run& run) {
  if (num_ranks == 1) return run(nullptr);
  BOLE_ASSIGN_OR_RETURN(const std::shared_ptr<RankGroup> group,
                        RankGroup::Create(num_ranks));
  std::fflush(nullptr);
  std::vector<std::pair<pid_t, int>> others;
  absl::Status status;
  for (int rank = 1; rank < num_ranks && status.ok(); ++rank) {
    const pid_t pid = fork();
    if (pid == 0) BeRank(*group, rank, run);
    if (pid < 0) {
      status = absl::ErrnoToStatus(errno, "a process for another rank");
      group->End(0, status);
    } else {
      others.emplace_back(pid, rank);
    }
  }
  std::vector<std::thread> followers;
  followers.reserve(others.size());
  for (const auto& [pid, rank] : others) {
    followers.emplace_back(Follow, pid, rank, std::ref(*group));
  }
  if (status.ok()) status = RunToTheEnd(run, group, 0);
  for (std::thread& follower : followers) follower.join();
  return status;
}

}  // namespace bole
