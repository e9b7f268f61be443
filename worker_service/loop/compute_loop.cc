#include "worker_service/loop/compute_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker_service/engine/validate_plan.h"
#include "worker_service/loop/step_flight.h"

namespace bole {
namespace {

// The longest time between two checks of the running step: a hang is noticed at
// most a tenth of a second late.
constexpr std::chrono::milliseconds kMaxCheckInterval(100);

int NumPrefillTokens(const StepPlan& plan) {
  int tokens = 0;
  for (const PrefillPlan& prefill : plan.prefills) {
    tokens += static_cast<int>(prefill.tokens.size());
  }
  return tokens;
}

}  // namespace

ComputeLoop::ComputeLoop(ComputeLoopOptions options)
    : options_(std::move(options)),
      watch_(options_.step_timeout),
      thread_([this] { Run(); }) {
  const std::chrono::milliseconds timeout = options_.step_timeout;
  if (timeout.count() <= 0) return;
  ticker_.emplace(std::min(timeout, kMaxCheckInterval),
                  [this] { CheckStep(); });
}

ComputeLoop::~ComputeLoop() { Stop(); }

void ComputeLoop::Open(uint64_t stream) {
  MutexLock lock(mutex_);
  stream_ = stream;
  waiting_.clear();
}

void ComputeLoop::Close(uint64_t stream) {
  MutexLock lock(mutex_);
  if (stream_ != stream) return;
  stream_ = 0;
  waiting_.clear();
}

absl::Status ComputeLoop::Submit(uint64_t stream, uint64_t sequence,
                                 StepPlan plan) {
  MutexLock lock(mutex_);
  if (stream != stream_ || stopping_) return absl::OkStatus();
  if (waiting_.size() >= kMaxWaiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(waiting_.size(), " plans are queued already"));
  }
  waiting_.push_back({.stream = stream,
                      .sequence = sequence,
                      .plan = std::move(plan),
                      .queued = std::chrono::steady_clock::now()});
  changed_.NotifyAll();
  return absl::OkStatus();
}

void ComputeLoop::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  MutexLock lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void ComputeLoop::Run() {
  while (true) {
    mutex_.Lock();
    while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
    if (stopping_) {
      mutex_.Unlock();
      return;
    }
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    job.waiting = static_cast<int>(waiting_.size());
    mutex_.Unlock();

    if (!RunJob(job)) return;
  }
}

void ComputeLoop::CheckStep() {
  if (hang_reported_) return;
  const absl::Status status = watch_.Check(StepWatch::Clock::now());
  if (status.ok()) return;
  hang_reported_ = true;
  options_.on_hang(status);
}

void ComputeLoop::RefuseJob(const Job& job, absl::Status why) {
  options_.on_outcome({.stream = job.stream,
                       .sequence = job.sequence,
                       .result = std::move(why)});
}

bool ComputeLoop::RunJob(const Job& job) {
  using Clock = StepWatch::Clock;
  StepFlight flight(options_.flight, job.stream, job.sequence, job.plan);
  flight.Taken(job.queued, job.waiting);
  absl::Status valid =
      ValidatePlan(job.plan, options_.limits, options_.has_drafter);
  if (!valid.ok()) {
    flight.End(StepOutcome::kRefused);
    RefuseJob(job, std::move(valid));
    return true;
  }
  flight.Begin();
  Clock::time_point start = Clock::now();
  watch_.Begin(job.stream, job.sequence, job.plan, start);
  const auto report = [&](absl::StatusOr<StepResult> result) {
    const Clock::time_point now = Clock::now();
    watch_.AddResult(now);
    flight.Add(result, now - start);
    ComputeOutcome next{
        .stream = job.stream, .sequence = job.sequence, .result = StepResult{}};
    next.step_seconds =
        std::chrono::duration<double>(now - std::exchange(start, now)).count();
    if (result.ok() && result->round > 0) {
      next.nodes = result->forest ? result->forest->num_nodes() : 0;
    } else {
      next.prefill_tokens = NumPrefillTokens(job.plan);
      next.nodes = job.plan.forest.num_nodes();
      next.slot_copies = static_cast<int>(job.plan.copies.slots.size());
      next.page_copies = static_cast<int>(job.plan.copies.pages.size());
    }
    next.result = std::move(result);
    options_.on_outcome(std::move(next));
  };
  const absl::Status status = options_.step(
      job.plan, [&](StepResult result) { report(std::move(result)); });
  if (!status.ok()) {
    report(absl::InternalError(absl::StrCat(
        PlanName(job.stream, job.sequence, job.plan),
        " failed, and this worker has to be restarted: ", status.ToString())));
  }
  watch_.End();
  return status.ok();
}

}  // namespace bole
