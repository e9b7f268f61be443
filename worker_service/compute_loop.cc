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

    ComputeOutcome outcome = RunJob(job);
    const bool failed = absl::IsInternal(outcome.result.status());
    options_.on_outcome(std::move(outcome));
    if (failed) return;
  }
}

ComputeOutcome ComputeLoop::RunJob(const Job& job) const {
  ComputeOutcome outcome{
      .epoch = job.epoch, .sequence = job.sequence, .result = StepResult{}};
  if (absl::Status status = Check(job.plan, options_); !status.ok()) {
    outcome.result = std::move(status);
    return outcome;
  }
  const auto start = std::chrono::steady_clock::now();
  outcome.result = options_.step(job.plan);
  outcome.step_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  outcome.prefill_tokens = NumPrefillTokens(job.plan);
  outcome.nodes = job.plan.forest.num_nodes();
  if (!outcome.result.ok()) {
    outcome.result = absl::InternalError(absl::StrCat(
        "the engine failed: ", outcome.result.status().ToString()));
  }
  return outcome;
}

}  // namespace bole
