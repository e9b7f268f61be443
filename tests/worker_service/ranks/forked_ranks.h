// Ranks as processes that a test forks.
#ifndef BOLE_TESTS_WORKER_SERVICE_RANKS_FORKED_RANKS_H_
#define BOLE_TESTS_WORKER_SERVICE_RANKS_FORKED_RANKS_H_

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "kernels/communicator.h"
#include "tests/worker_service/ranks/on_ranks.h"
#include "worker_service/ranks/host_communicator.h"
#include "worker_service/ranks/rank_group.h"

namespace bole::testing {

// A process for each of n ranks, which the test is none of. Each joins the
// group by its descriptor and runs body(communicator), whose result is how it
// ends: "" if all is well.
//
// REQUIRES: the test program has no other thread at the construction.
class ForkedRanks {
 public:
  using Body = std::function<std::string(Communicator&)>;

  ForkedRanks(int n, std::chrono::milliseconds deadline, const Body& body)
      : group_(NewGroup(n, deadline)) {
    for (int rank = 0; rank < n; ++rank) pids_.push_back(Fork(rank, body));
  }
  ~ForkedRanks() {
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      if (pids_[rank] == 0) continue;
      kill(pids_[rank], SIGKILL);
      waitpid(pids_[rank], nullptr, 0);
    }
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  RankGroup& group() { return *group_; }
  void Signal(int rank, int signal) {
    BOLE_CHECK(kill(pids_[static_cast<size_t>(rank)], signal) == 0);
  }
  // Waits for the end of a rank: 0 if all was well, 128 + the signal that ended
  // it, else 1, having said why.
  int Wait(int rank) {
    int status = 0;
    pid_t& pid = pids_[static_cast<size_t>(rank)];
    BOLE_CHECK(waitpid(std::exchange(pid, 0), &status, 0) > 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t Fork(int rank, const Body& body) {
    const pid_t pid = fork();
    BOLE_CHECK(pid >= 0);
    if (pid > 0) return pid;
    std::string wrong;
    {
      const auto group = RankGroup::Join(group_->descriptor());
      BOLE_CHECK(group.ok());
      wrong = body(*MakeHostCommunicator(*group, rank));
    }
    if (wrong.empty()) _exit(0);
    std::fprintf(stderr, "rank %d: %s\n", rank, wrong.c_str());
    _exit(1);
  }

  const std::shared_ptr<RankGroup> group_;
  std::vector<pid_t> pids_;  // By rank; 0: it has been waited for.
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_WORKER_SERVICE_RANKS_FORKED_RANKS_H_
