// A thread that calls a function at regular intervals.
#ifndef BOLE_WORKER_SERVICE_LOOP_TICKER_H_
#define BOLE_WORKER_SERVICE_LOOP_TICKER_H_

#include <chrono>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace bole {

// Calls `on_tick` every `interval`, first after one interval, until it is
// destroyed. A call that takes longer than the interval delays those after it.
class Ticker {
 public:
  Ticker(std::chrono::milliseconds interval, std::function<void()> on_tick);
  ~Ticker();  // Waits for a running call.

  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void Run();

  const std::chrono::milliseconds interval_;
  const std::function<void()> on_tick_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last, because it reads the other members.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOOP_TICKER_H_
