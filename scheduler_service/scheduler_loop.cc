#include "scheduler_service/scheduler_loop.h"

#include <utility>

#include "common/ids.h"

namespace bole {

SchedulerLoop::SchedulerLoop(const SchedulerOptions& options,
                             const ModelCatalog& catalog, Metrics& metrics)
    : options_(options),
      catalog_(catalog),
      metrics_(metrics),
      mailbox_(options.admission) {
  // Creates the series, so that rates of what has not happened yet are 0.
  for (int i = 0; i < catalog.size(); ++i) {
    metrics.Of(catalog.at(ModelId(i)).name);
  }
}

SchedulerLoop::~SchedulerLoop() { Stop(); }

void SchedulerLoop::Start(Scheduler::LetGo let_go,
                          std::function<void()> on_turn) {
  on_turn_ = std::move(on_turn);
  scheduler_ = std::make_unique<Scheduler>(
      options_, catalog_, metrics_,
      [this](const Request& request, bool runs) {
        mailbox_.Release(request, runs);
      },
      std::move(let_go));
  Publish(/*draining=*/false);
  running_ = true;
  thread_ = std::thread([this] { Run(); });
}

std::optional<Refusal> SchedulerLoop::Submit(
    std::span<std::unique_ptr<Request>> requests) {
  return mailbox_.Submit(requests);
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

void SchedulerLoop::Run() {
  bool stopped = false;
  while (!stopped) {
    Mail mail = mailbox_.Take(scheduler_->NextWakeup());
    stopped = mail.stopped;
    TakeTurn(std::move(mail));
  }
  running_ = false;
}

void SchedulerLoop::PostOutcome(WorkerId worker, WorkerOutcome outcome) {
  std::optional<Mail> mail =
      mailbox_.PostOrTake({.worker = worker, .news = std::move(outcome)});
  if (!mail) return;
  TakeTurn(*std::move(mail));
  mailbox_.Return(scheduler_->NextWakeup());
}

void SchedulerLoop::TakeTurn(Mail mail) {
  const bool draining = mail.draining;
  scheduler_->Handle(std::move(mail), std::chrono::steady_clock::now());
  Publish(draining);
  if (on_turn_) on_turn_();
}

void SchedulerLoop::Publish(bool draining) {
  SchedulerStatus status = scheduler_->status();
  metrics_.SetLoad(status, mailbox_.load());
  MutexLock lock(mutex_);
  status_ = std::move(status);
  idle_after_drain_ = draining && scheduler_->idle();
  changed_.NotifyAll();
}

}  // namespace bole
