#include "worker_service/loop/step_watch.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace bole {
namespace {

// "2 trees", "1 tree".
std::string Count(size_t count, std::string_view noun) {
  return absl::StrCat(count, " ", std::string(noun), count == 1 ? "" : "s");
}

}  // namespace

std::string PlanName(uint64_t stream, uint64_t number, const StepPlan& plan) {
  std::vector<std::string> parts;
  if (!plan.prefills.empty()) {
    size_t tokens = 0;
    for (const PrefillPlan& chunk : plan.prefills) {
      tokens += chunk.tokens.size();
    }
    parts.push_back(absl::StrCat(Count(plan.prefills.size(), "prefill chunk"),
                                 " of ", Count(tokens, "token")));
  }
  if (!plan.sequences.empty()) {
    parts.push_back(absl::StrCat(Count(plan.sequences.size(), "tree"), " of ",
                                 Count(plan.forest.num_nodes(), "node")));
  }
  if (plan.lease) parts.push_back(Count(plan.lease->rounds, "round"));
  return absl::StrCat("plan ", number, " of stream ", stream, " (",
                      absl::StrJoin(parts, ", "), ")");
}

void StepWatch::Begin(uint64_t stream, uint64_t number, const StepPlan& plan,
                      Clock::time_point now) {
  MutexLock lock(mutex_);
  running_ = {.stream = stream,
              .number = number,
              .plan = &plan,
              .results = 0,
              .last_result = now};
}

void StepWatch::AddResult(Clock::time_point now) {
  MutexLock lock(mutex_);
  ++running_->results;
  running_->last_result = now;
}

void StepWatch::End() {
  MutexLock lock(mutex_);
  running_.reset();
}

absl::Status StepWatch::Check(Clock::time_point now) const {
  MutexLock lock(mutex_);
  if (!running_ || now - running_->last_result <= timeout_) {
    return absl::OkStatus();
  }
  const std::chrono::duration<double> silent = now - running_->last_result;
  return absl::InternalError(absl::StrCat(
      PlanName(running_->stream, running_->number, *running_->plan),
      " has given no result for ", silent.count(), " s, after ",
      Count(running_->results, "result"),
      ": the device hangs and this worker has to be restarted, or "
      "--step-timeout-seconds is too short for it"));
}

}  // namespace bole
