#include "worker_service/loop/step_flight.h"

#include "common/flight/unix_time.h"

namespace bole {
namespace {

int64_t Nanoseconds(StepFlight::Clock::duration time) {
  return std::chrono::nanoseconds(time).count();
}

}  // namespace

StepFlight::StepFlight(FlightRecorder* recorder, uint64_t stream,
                       uint64_t number, const StepPlan& plan)
    : recorder_(recorder) {
  if (recorder_ == nullptr) return;
  record_ = RecordOf(plan);
  record_.at_us = UnixMicroseconds();
  record_.stream = static_cast<int64_t>(stream);
  record_.plan = static_cast<int64_t>(number);
}

void StepFlight::Taken(Clock::time_point queued, int waiting) {
  if (recorder_ == nullptr) return;
  taken_ = Clock::now();
  record_.queue_ns = Nanoseconds(taken_ - queued);
  record_.waiting = waiting;
  number_ = recorder_->Add(NumbersOf(record_));
}

void StepFlight::Begin() {
  if (recorder_ == nullptr) return;
  record_.validate_ns = Nanoseconds(Clock::now() - taken_);
  recorder_->Amend(number_, NumbersOf(record_));
}

void StepFlight::Add(const absl::StatusOr<StepResult>& result,
                     Clock::duration took) {
  if (recorder_ == nullptr) return;
  record_.engine_ns = Nanoseconds(took);
  if (result.ok()) AddResult(*result, record_);
  End(result.ok() ? StepOutcome::kDone : StepOutcome::kFailed);
  if (!result.ok() || result->is_last) return;
  // The device decides what the next round verifies, so those numbers are not
  // known here.
  record_ = {.at_us = UnixMicroseconds(),
             .stream = record_.stream,
             .plan = record_.plan,
             .round = record_.round + 1,
             .waiting = record_.waiting,
             .sequences = record_.sequences,
             .kv_tokens = record_.kv_tokens,
             .draft_top_k = record_.draft_top_k,
             .draft_depth = record_.draft_depth,
             .lease_rounds = record_.lease_rounds,
             .lease_budget = record_.lease_budget};
  number_ = recorder_->Add(NumbersOf(record_));
}

void StepFlight::End(StepOutcome outcome) {
  if (recorder_ == nullptr) return;
  record_.outcome = static_cast<int64_t>(outcome);
  recorder_->Amend(number_, NumbersOf(record_));
}

}  // namespace bole
