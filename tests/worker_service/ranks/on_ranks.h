// Ranks as threads of a test.
#ifndef BOLE_TESTS_WORKER_SERVICE_RANKS_ON_RANKS_H_
#define BOLE_TESTS_WORKER_SERVICE_RANKS_ON_RANKS_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "kernels/communicator.h"
#include "worker_service/ranks/host_communicator.h"
#include "worker_service/ranks/rank_group.h"

namespace bole::testing {

// A deadline that no test reaches.
inline constexpr std::chrono::milliseconds kNoDeadline{600000};

// A group whose ranks wait so long for one another.
inline std::shared_ptr<RankGroup> NewGroup(
    int num_ranks, std::chrono::milliseconds deadline = kNoDeadline) {
  absl::StatusOr<std::shared_ptr<RankGroup>> group =
      RankGroup::Create(num_ranks);
  BOLE_CHECK(group.ok());
  (*group)->SetDeadline(deadline);
  return *std::move(group);
}

// Runs body(communicator) on a thread for each of n ranks, and returns when all
// have ended. A rank leaves when its communicator is destroyed.
inline void OnRanks(
    int n, const std::function<void(std::unique_ptr<Communicator>)>& body,
    std::chrono::milliseconds deadline = kNoDeadline) {
  const std::shared_ptr<RankGroup> group = NewGroup(n, deadline);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(n));
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back(
        [&body](std::unique_ptr<Communicator> own) { body(std::move(own)); },
        MakeHostCommunicator(group, rank));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_WORKER_SERVICE_RANKS_ON_RANKS_H_
