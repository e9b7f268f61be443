#include "worker_service/ranks/rank_threads.h"

#include <cstddef>
#include <utility>

#include "common/check.h"

namespace bole {

RankThreads::RankThreads(int num_ranks)
    : statuses_(static_cast<size_t>(num_ranks)) {
  BOLE_CHECK(num_ranks >= 1);
  for (int rank = 1; rank < num_ranks; ++rank) {
    threads_.emplace_back([this, rank] { Follow(rank); });
  }
}

RankThreads::~RankThreads() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status RankThreads::Run(const Work& work) {
  if (threads_.empty()) return work(0);
  {
    MutexLock lock(mutex_);
    work_ = &work;
    num_working_ = static_cast<int>(threads_.size());
    ++num_runs_;
    changed_.NotifyAll();
  }
  absl::Status own = work(0);
  MutexLock lock(mutex_);
  while (num_working_ > 0) changed_.Wait(mutex_);
  statuses_[0] = std::move(own);
  for (absl::Status& status : statuses_) {
    if (!status.ok()) return std::move(status);
  }
  return absl::OkStatus();
}

void RankThreads::Follow(int rank) {
  int64_t num_done = 0;
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && num_runs_ == num_done) changed_.Wait(mutex_);
    if (stopping_) return;
    const Work& work = *work_;
    ++num_done;
    mutex_.Unlock();
    absl::Status status = work(rank);
    mutex_.Lock();
    statuses_[static_cast<size_t>(rank)] = std::move(status);
    if (--num_working_ == 0) changed_.NotifyAll();
  }
}

}  // namespace bole
