// A thread that runs actions at their times.
#ifndef BOLE_TESTS_BENCH_LOAD_EVENT_THREAD_H_
#define BOLE_TESTS_BENCH_LOAD_EVENT_THREAD_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace bole {

// Actions run one after the other, those of one time in the order of their
// calls. Thread-safe; actions may call After().
class EventThread {
 public:
  EventThread() : thread_([this] { Run(); }) {}
  ~EventThread() { Stop(); }

  void After(std::chrono::nanoseconds delay, std::function<void()> action) {
    MutexLock lock(mutex_);
    const auto time = std::chrono::steady_clock::now() + delay;
    actions_.emplace(std::pair(time, ++num_actions_), std::move(action));
    changed_.NotifyAll();
  }
  // What has not run never will.
  void Stop() {
    {
      MutexLock lock(mutex_);
      stopped_ = true;
      changed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Time = std::chrono::steady_clock::time_point;

  void Run() {
    while (const std::function<void()> action = Next()) action();
  }
  // Waits for the next one; none once it is stopped.
  std::function<void()> Next() {
    MutexLock lock(mutex_);
    while (!stopped_) {
      if (actions_.empty()) {
        changed_.Wait(mutex_);
      } else if (const Time due = actions_.begin()->first.first;
                 due > std::chrono::steady_clock::now()) {
        changed_.WaitUntil(mutex_, due);
      } else {
        return std::move(actions_.extract(actions_.begin()).mapped());
      }
    }
    return nullptr;
  }

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t num_actions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<Time, uint64_t>, std::function<void()>> actions_
      ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // After all that it uses.
};

}  // namespace bole

#endif  // BOLE_TESTS_BENCH_LOAD_EVENT_THREAD_H_
