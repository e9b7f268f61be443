#include "worker_service/compute_loop.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

absl::Status Check(const StepPlan& plan, const ComputeLoopOptions& options) {
  BOLE_RETURN_IF_ERROR(Validate(plan, options.limits));
  if (!plan.draft || options.has_drafter) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the plan asks for a draft, the checkpoint has no drafter");
}

int NumPrefillTokens(const StepPlan& plan) {
  int tokens = 0;
  for (const PrefillPlan& prefill : plan.prefills) {
    tokens += static_cast<int>(prefill.tokens.size());
  }
  return tokens;
}

}  // namespace

ComputeLoop::ComputeLoop(ComputeLoopOptions options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

ComputeLoop::~ComputeLoop() { Stop(); }

void ComputeLoop::Open(uint64_t epoch) {
  MutexLock lock(mutex_);
  epoch_ = epoch;
  waiting_.clear();
}

void ComputeLoop::Close(uint64_t epoch) {
  MutexLock lock(mutex_);
  if (epoch_ != epoch) return;
  epoch_ = 0;
  waiting_.clear();
}

absl::Status ComputeLoop::Submit(uint64_t epoch, uint64_t sequence,
                                 StepPlan plan) {
  MutexLock lock(mutex_);
  if (epoch != epoch_ || stopping_) return absl::OkStatus();
  if (waiting_.size() >= kMaxWaiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(waiting_.size(), " plans wait already"));
  }
  waiting_.push_back({epoch, sequence, std::move(plan)});
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
    const Job job = std::move(waiting_.front());
    waiting_.pop_front();
    mutex_.Unlock();

    if (!RunJob(job)) return;
  }
}

bool ComputeLoop::RunJob(const Job& job) const {
  using Clock = std::chrono::steady_clock;
  ComputeOutcome outcome{
      .epoch = job.epoch, .sequence = job.sequence, .result = StepResult{}};
  if (absl::Status status = Check(job.plan, options_); !status.ok()) {
    outcome.result = std::move(status);
    options_.on_outcome(std::move(outcome));
    return true;
  }
  Clock::time_point start = Clock::now();
  const auto report = [&](absl::StatusOr<StepResult> result) {
    const Clock::time_point now = Clock::now();
    ComputeOutcome next = outcome;
    next.step_seconds =
        std::chrono::duration<double>(now - std::exchange(start, now)).count();
    if (result.ok() && result->round > 0) {
      next.nodes = result->forest ? result->forest->num_nodes() : 0;
    } else {
      next.prefill_tokens = NumPrefillTokens(job.plan);
      next.nodes = job.plan.forest.num_nodes();
    }
    next.result = std::move(result);
    options_.on_outcome(std::move(next));
  };
  const absl::Status status = options_.step(
      job.plan, [&](StepResult result) { report(std::move(result)); });
  if (status.ok()) return true;
  report(absl::InternalError(
      absl::StrCat("the engine failed, and this worker has to be restarted: ",
                   status.ToString())));
  return false;
}

}  // namespace bole
