#include "scheduler_service/task_thread.h"

#include <utility>

namespace bole {

TaskThread::TaskThread(size_t max_waiting)
    : max_waiting_(max_waiting), thread_([this] { Run(); }) {}

TaskThread::~TaskThread() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

bool TaskThread::Post(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (tasks_.size() >= max_waiting_) return false;
  tasks_.push_back(std::move(task));
  changed_.NotifyAll();
  return true;
}

void TaskThread::Run() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (tasks_.empty() && !stopping_) changed_.Wait(mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace bole
