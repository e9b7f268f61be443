#include "scheduler_service/door/task_pool.h"

#include <algorithm>
#include <utility>

namespace bole {

TaskPool::TaskPool(int num_threads, size_t max_waiting)
    : max_waiting_(max_waiting) {
  threads_.reserve(num_threads);
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

TaskPool::~TaskPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

std::optional<TaskPool::Ticket> TaskPool::Post(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (waiting_.size() >= max_waiting_) return std::nullopt;
  const Ticket ticket = next_ticket_++;
  waiting_.push_back({.ticket = ticket, .task = std::move(task)});
  if (num_idle_ > 0) changed_.NotifyAll();
  return ticket;
}

bool TaskPool::Withdraw(Ticket ticket) {
  std::function<void()> task;  // What it holds is freed without the lock.
  MutexLock lock(mutex_);
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [&](const Waiting& w) { return w.ticket == ticket; });
  if (found == waiting_.end()) return false;
  task = std::move(found->task);
  waiting_.erase(found);
  return true;
}

size_t TaskPool::num_waiting() const {
  MutexLock lock(mutex_);
  return waiting_.size();
}

void TaskPool::Run() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      ++num_idle_;
      while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
      --num_idle_;
      if (waiting_.empty()) return;
      task = std::move(waiting_.front().task);
      waiting_.pop_front();
    }
    task();
  }
}

}  // namespace bole
