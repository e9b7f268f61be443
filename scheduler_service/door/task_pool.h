// A queue of tasks and the threads that run them.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_TASK_POOL_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_TASK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace bole {

// For work that would delay others on the thread where it comes up. With one
// thread the tasks run in the order in which they were posted.
//
// Thread-safe. Post() never waits for a task: no task runs under the lock.
class TaskPool {
 public:
  // Names a posted task.
  using Ticket = uint64_t;

  // At most `max_waiting` tasks may wait, not counting those that run.
  TaskPool(int num_threads, size_t max_waiting);
  ~TaskPool();  // Returns once every task that was posted has run.

  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // Returns nothing, and drops the task, if too many wait.
  std::optional<Ticket> Post(std::function<void()> task);

  // Takes a waiting task back, which then never runs and no longer counts.
  // Returns false if it runs or has run. COST: O(waiting tasks).
  bool Withdraw(Ticket ticket);

  size_t num_waiting() const;
  size_t max_waiting() const { return max_waiting_; }

 private:
  struct Waiting {
    Ticket ticket;
    std::function<void()> task;
  };

  void Run();

  const size_t max_waiting_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  Ticket next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_idle_ ABSL_GUARDED_BY(mutex_) = 0;  // Threads that wait for a task.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // They use the rest, so they come last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_TASK_POOL_H_
