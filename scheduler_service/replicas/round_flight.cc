#include "scheduler_service/replicas/round_flight.h"

#include <optional>

#include "common/draft_shape.h"
#include "common/flight/unix_time.h"
#include "common/memory_copies.h"
#include "common/step.h"

namespace bole {
namespace {

int64_t Nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::nanoseconds(time).count();
}

int64_t NumCopies(const StepPlan& plan) {
  int64_t copies = 0;
  for (const MemoryCopies* of :
       {&plan.to_host, &plan.from_host, &plan.copies}) {
    copies += static_cast<int64_t>(of->slots.size() + of->pages.size());
  }
  return copies;
}

void SetDraft(const std::optional<DraftShape>& draft, RoundRecord& record) {
  record.draft_top_k = draft ? draft->top_k : 0;
  record.draft_depth = draft ? draft->depth : 0;
}

}  // namespace

void RoundFlight::Sent(uint64_t epoch, const Placements& placements,
                       bool others_wait, Clock::time_point began,
                       RoundInFlight& round) const {
  if (options_.recorder == nullptr) return;
  const StepPlan& plan = round.awaited.plan;
  const RoundMetrics& metrics = round.metrics;
  RoundRecord& record = round.record;
  record = {.at_us = UnixMicroseconds(),
            .worker = options_.worker_number,
            .epoch = static_cast<int64_t>(epoch),
            .plan = static_cast<int64_t>(round.plan_number),
            .host_ns = Nanoseconds(metrics.host_seconds),
            .plan_ns = Nanoseconds(round.measured - began),
            .predicted_ns = Nanoseconds(metrics.predicted_seconds),
            .running = static_cast<int64_t>(placements.size()),
            .others_wait = others_wait ? 1 : 0,
            .free_slots = placements.slots().free,
            .free_pages = placements.pages().free,
            .prefills = static_cast<int64_t>(plan.prefills.size()),
            .prefill_tokens = metrics.prefill_tokens,
            .sequences = metrics.sequences,
            .budget = metrics.budget,
            .nodes = metrics.nodes,
            .off_reason = static_cast<int64_t>(round.off_reason),
            .copies = NumCopies(plan)};
  SetDraft(plan.draft, record);
  if (plan.lease) {
    record.lease_rounds = plan.lease->rounds;
    record.lease_budget = plan.lease->budget;
  }
  round.record_number = options_.recorder->Add(NumbersOf(record));
}

void RoundFlight::Done(const RoundMetrics& metrics, Clock::time_point began,
                       RoundInFlight& round) const {
  if (options_.recorder == nullptr) return;
  RoundRecord& record = round.record;
  record.round_ns = Nanoseconds(metrics.round_seconds);
  record.engine_ns = Nanoseconds(metrics.step_seconds);
  record.apply_ns = Nanoseconds(Clock::now() - began);
  record.sequences = metrics.sequences;
  record.nodes = metrics.nodes;
  record.emitted = metrics.emitted_tokens;
  record.accepted = metrics.accepted_drafts;
  record.promised_milli =
      static_cast<int64_t>(metrics.promised_drafts * 1000 + 0.5);
  End(RoundOutcome::kDone, round);
}

void RoundFlight::Next(RoundInFlight& round) const {
  if (options_.recorder == nullptr) return;
  const RoundRecord& before = round.record;
  // The worker decides which nodes it verifies, and reports them with its
  // result.
  round.record = {.at_us = UnixMicroseconds(),
                  .worker = before.worker,
                  .epoch = before.epoch,
                  .plan = before.plan,
                  .round = round.awaited.round,
                  .running = before.running,
                  .free_slots = before.free_slots,
                  .free_pages = before.free_pages,
                  .budget = before.lease_budget,
                  .draft_top_k = before.draft_top_k,
                  .draft_depth = before.draft_depth,
                  .off_reason = before.off_reason,
                  .lease_rounds = before.lease_rounds,
                  .lease_budget = before.lease_budget};
  round.record_number = options_.recorder->Add(NumbersOf(round.record));
}

void RoundFlight::Refused(RoundInFlight& round) const {
  if (options_.recorder != nullptr) End(RoundOutcome::kRefused, round);
}

void RoundFlight::Lost(RoundInFlight& round) const {
  if (options_.recorder != nullptr) End(RoundOutcome::kLost, round);
  if (options_.on_fault) options_.on_fault();
}

void RoundFlight::End(RoundOutcome outcome, RoundInFlight& round) const {
  round.record.outcome = static_cast<int64_t>(outcome);
  options_.recorder->Amend(round.record_number, NumbersOf(round.record));
}

}  // namespace bole
