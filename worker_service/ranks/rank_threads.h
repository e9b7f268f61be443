// A thread for each rank of a model.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANK_THREADS_H_
#define BOLE_WORKER_SERVICE_RANKS_RANK_THREADS_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"

namespace bole {

// Has all ranks do the same at the same time. Threads that have nothing to do
// are blocked.
//
// One thread at a time may call Run(), and the destructor.
class RankThreads {
 public:
  using Work = std::function<absl::Status(int rank)>;

  // REQUIRES: num_ranks >= 1.
  explicit RankThreads(int num_ranks);
  ~RankThreads();

  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Calls work(0) on the calling thread, and work(1) .. work(num_ranks - 1) at
  // the same time, each always on the same thread of its own. Returns when all
  // have returned: the error of the lowest rank that has one. They may wait for
  // one another.
  absl::Status Run(const Work& work);

 private:
  void Follow(int rank);

  Mutex mutex_;
  CondVar changed_;
  const Work* work_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int64_t num_runs_ ABSL_GUARDED_BY(mutex_) = 0;
  // How many of threads_ have not returned from the present run.
  int num_working_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::Status> statuses_ ABSL_GUARDED_BY(mutex_);  // By rank.
  std::vector<std::thread> threads_;  // threads_[i] is that of rank i + 1.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANK_THREADS_H_
