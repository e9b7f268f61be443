// Ranks as threads of a test.
#ifndef BOLE_TESTS_WORKER_SERVICE_RANKS_ON_RANKS_H_
#define BOLE_TESTS_WORKER_SERVICE_RANKS_ON_RANKS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/communicator.h"
#include "worker_service/ranks/host_communicator.h"

namespace bole::testing {

// A deadline that no test reaches.
inline constexpr std::chrono::milliseconds kNoDeadline{600000};

// Runs body(communicator) on a thread for each of n ranks, and returns when all
// have ended. A rank leaves when its communicator is destroyed.
inline void OnRanks(
    int n, const std::function<void(std::unique_ptr<Communicator>)>& body,
    std::chrono::milliseconds deadline = kNoDeadline) {
  std::vector<std::thread> threads;
  for (std::unique_ptr<Communicator>& rank :
       MakeHostCommunicators(n, deadline)) {
    threads.emplace_back(
        [&body](std::unique_ptr<Communicator> own) { body(std::move(own)); },
        std::move(rank));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_WORKER_SERVICE_RANKS_ON_RANKS_H_
