// A thread that works off tasks, one after the other.
#ifndef BOLE_SCHEDULER_SERVICE_TASK_THREAD_H_
#define BOLE_SCHEDULER_SERVICE_TASK_THREAD_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace bole {

// For work that is too long for threads that others wait for. Thread-safe.
class TaskThread {
 public:
  // So many tasks may wait while one runs.
  explicit TaskThread(size_t max_waiting);
  ~TaskThread();  // Once everything that was posted has run.

  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  // Returns false, and drops the task, if too many wait.
  bool Post(std::function<void()> task);

 private:
  void Run();

  const size_t max_waiting_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Reads the rest: last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_TASK_THREAD_H_
