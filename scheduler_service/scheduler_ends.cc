// The scheduler's part for how requests end, and what is told of them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler_service/scheduler.h"

namespace bole {
namespace {

double Seconds(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

absl::Status Scheduler::OverdueOrCancelled(const Sequence& sequence) const {
  if (sequence.request().stream->cancelled()) {
    return absl::CancelledError("the client cancelled");
  }
  if (sequence.request().deadline <= now_) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the deadline passed after ", sequence.num_output(), " output tokens"));
  }
  return absl::OkStatus();
}

void Scheduler::Sweep() {
  std::vector<std::pair<Sequence*, absl::Status>> ended;
  if (batch_) {
    for (const std::unique_ptr<Sequence>& sequence : batch_->running()) {
      absl::Status status = OverdueOrCancelled(*sequence);
      if (!status.ok()) ended.emplace_back(sequence.get(), std::move(status));
    }
  }
  for (auto& [sequence, status] : ended) End(*sequence, std::move(status));

  for (auto& sequence : waiting_) {
    absl::Status status = OverdueOrCancelled(*sequence);
    if (!status.ok()) Finish(std::move(sequence), std::move(status));
  }
  std::erase(waiting_, nullptr);
  if (!batch_ && now_ >= lost_at_ + options_.reconnect_grace) {
    EndWaiting(absl::UnavailableError(
        absl::StrCat("the worker is gone: ", last_error_)));
  }
}

int Scheduler::NumRunning() const {
  return batch_ ? static_cast<int>(batch_->running().size()) : 0;
}

bool Scheduler::IsStalled() const {
  if (!batch_ || in_flight_) return false;
  return NumRunning() > 0 || (!waiting_.empty() && !worker_draining_);
}

void Scheduler::End(Sequence& running, absl::StatusOr<Completion> end) {
  if (in_flight_) {
    std::replace(in_flight_->prefills.begin(), in_flight_->prefills.end(),
                 &running, static_cast<Sequence*>(nullptr));
    std::replace(in_flight_->sequences.begin(), in_flight_->sequences.end(),
                 &running, static_cast<Sequence*>(nullptr));
  }
  Finish(batch_->Remove(running), std::move(end));
}

void Scheduler::Finish(std::unique_ptr<Sequence> sequence,
                       absl::StatusOr<Completion> end) {
  const Request& request = sequence->request();
  if (!sequence->first_run) on_dequeued_(request);
  const double first_token =
      sequence->first_token ? Seconds(request.arrival, *sequence->first_token)
                            : 0;
  metrics_.Ended(end.status(), Seconds(request.arrival, now_), first_token,
                 sequence->num_output());
  deliveries_.push_back({.stream = request.stream,
                         .tokens = {},
                         .text = "",
                         .end = std::move(end)});
}

void Scheduler::EndWaiting(const absl::Status& why) {
  for (auto& sequence : waiting_) Finish(std::move(sequence), why);
  waiting_.clear();
}

void Scheduler::EndAll(const absl::Status& why) {
  while (NumRunning() > 0) End(*batch_->running().front(), why);
  EndWaiting(why);
}

void Scheduler::Deliver() {
  for (Delivery& delivery : deliveries_) {
    if (!delivery.tokens.empty() || !delivery.text.empty()) {
      delivery.stream->Append(std::move(delivery.tokens),
                              std::move(delivery.text));
    }
    if (delivery.end) delivery.stream->Finish(*std::move(delivery.end));
  }
  deliveries_.clear();
}

TimePoint Scheduler::NextWakeup() const {
  TimePoint next = in_flight_ ? in_flight_->deadline : TimePoint::max();
  for (const auto& sequence : waiting_) {
    next = std::min(next, sequence->request().deadline);
  }
  if (batch_) {
    for (const auto& sequence : batch_->running()) {
      next = std::min(next, sequence->request().deadline);
    }
  } else if (!waiting_.empty()) {
    next = std::min(next, lost_at_ + options_.reconnect_grace);
  }
  return next;
}

SchedulerStatus Scheduler::status() const {
  SchedulerStatus status{.worker = description_,
                         .connected = batch_.has_value(),
                         .worker_draining = worker_draining_,
                         .epoch = epoch_,
                         .last_error = last_error_,
                         .running = NumRunning(),
                         .waiting = static_cast<int>(waiting_.size()),
                         .slots = {},
                         .pages = {},
                         .speculation = options_.speculation,
                         .audit = ""};
  if (description_ != nullptr) {
    Speculation& used = status.speculation;
    used.nodes = plan_options_.max_nodes_per_tree;
    if (plan_options_.draft) {
      used.shape = *plan_options_.draft;
    } else {
      used.mode = SpeculationMode::kOff;
    }
  }
  if (batch_) {
    status.slots = batch_->slots();
    status.pages = batch_->pages();
    status.audit = batch_->Audit();
    if (status.audit.empty() && IsStalled()) {
      status.audit =
          absl::StrCat(status.running, " requests run and ", status.waiting,
                       " wait, but the worker has no plan");
    }
  }
  return status;
}

}  // namespace bole
