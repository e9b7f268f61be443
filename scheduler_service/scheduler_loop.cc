#include "scheduler_service/scheduler_loop.h"

#include <utility>

namespace bole {

SchedulerLoop::SchedulerLoop(const SchedulerOptions& options,
                             const Tokenizer& tokenizer, Metrics& metrics)
    : options_(options),
      tokenizer_(tokenizer),
      metrics_(metrics),
      mailbox_(options.admission) {}

SchedulerLoop::~SchedulerLoop() { Stop(); }

std::function<void(WorkerEvent)> SchedulerLoop::worker_sink() {
  return [this](WorkerEvent event) { mailbox_.Post(std::move(event)); };
}

void SchedulerLoop::Start(WorkerClient& worker) {
  thread_ = std::thread([this, &worker] { Run(worker); });
}

absl::Status SchedulerLoop::Submit(std::unique_ptr<Request>& request) {
  return mailbox_.Submit(request);
}

SchedulerStatus SchedulerLoop::status() const {
  MutexLock lock(mutex_);
  return status_;
}

bool SchedulerLoop::Drain(TimePoint deadline) {
  mailbox_.Drain();
  MutexLock lock(mutex_);
  while (!idle_after_drain_) {
    if (!changed_.WaitUntil(mutex_, deadline)) break;
  }
  return idle_after_drain_;
}

void SchedulerLoop::Stop() {
  mailbox_.Stop();
  if (thread_.joinable()) thread_.join();
}

void SchedulerLoop::Run(WorkerClient& worker) {
  Scheduler scheduler(
      options_, tokenizer_, metrics_, worker,
      [this](const Request& request) { mailbox_.Release(request); });
  bool stopped = false;
  while (!stopped) {
    Mail mail = mailbox_.Take(scheduler.NextWakeup());
    stopped = mail.stopped;
    const bool draining = mail.draining;
    scheduler.Handle(std::move(mail), std::chrono::steady_clock::now());
    SchedulerStatus status = scheduler.status();
    metrics_.SetLoad(status, mailbox_.load());
    MutexLock lock(mutex_);
    status_ = std::move(status);
    idle_after_drain_ = draining && scheduler.idle();
    changed_.NotifyAll();
  }
}

}  // namespace bole
