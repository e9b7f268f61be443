// The part of Replica before a round: it decides who gets a place, and plans
// the round. The part after a round is in replica.cc; it belongs to the same
// class because it changes the same state.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/trace/trace_context.h"
#include "scheduler_service/replicas/replica.h"

namespace bole {
namespace {

double Seconds(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

RouteOption Replica::OptionFor(const Job& job, TimePoint now) const {
  RouteOption option{
      .has_room = placements().HasRoomFor(job),
      .round_seconds = connection_->pace.round_seconds(),
      .token_seconds = connection_->pace.token_seconds(),
      .max_prefill_tokens = connection_->plan_options.limits.max_prefill_tokens,
      .prefill_ahead = placements().PrefillLeft(),
      .prefill_tokens = job.prefill_target(),
      .cached_tokens = placements().Look(job).position,
      .num_running = placements().size()};
  if (connection_->in_flight) {
    const RoundInFlight& round = *connection_->in_flight;
    const std::optional<Lease>& lease = round.awaited.plan.lease;
    const int rounds_left = lease ? lease->rounds - round.awaited.round : 1;
    const double left =
        rounds_left * connection_->pace.Expected(round.metrics.prefill_tokens) -
        Seconds(round.started, now);
    option.seconds_until_free =
        left > 0 ? left : std::numeric_limits<double>::infinity();
  }
  return option;
}

void Replica::Place(Job& job, int cached_elsewhere) {
  changed_ = true;
  PrefixCache::Match match = connection_->placements.Place(job);
  if (match.position < cached_elsewhere) {
    match.reason = MissReason::kOtherWorker;
  }
  if (!placements().Find(job).waits()) CountPrefix(job, match);
}

void Replica::CountPrefix(Job& job, const PrefixCache::Match& match) {
  if (!placements().has_cache()) return;
  if (job.num_output() == 0) job.cached_tokens = match.position;
  series_->Prefix({.tokens = job.prefill_target(),
                   .cached = match.position,
                   .miss_reason = NameOf(match.reason)});
}

void Replica::MakeRoom() {
  if (placements().empty()) return;
  const std::vector<Job*> evicted = connection_->placements.Grow();
  connection_->evicting = !evicted.empty();
  changed_ = true;
  for (Job* job : evicted) {
    owner_.OnDisplaced(*job, Displacement::kEvicted, absl::OkStatus());
  }
}

std::span<const std::unique_ptr<Placement>> Replica::Coming() const {
  const std::span<const std::unique_ptr<Placement>> all = placements().all();
  const auto suspect = std::find_if(
      all.begin(), all.end(),
      [](const auto& placement) { return placement->job().is_suspect(); });
  return suspect == all.end() ? all : all.subspan(suspect - all.begin(), 1);
}

void Replica::CloseIfEmpty() {
  if (num_running() > 0 || connection_->closed) return;
  changed_ = true;
  connection_->draining = true;
  connection_->closed = true;
  link_.client->Close(epoch_);
}

void Replica::StartRound(bool others_wait, TimePoint now) {
  Connection& connection = *connection_;
  connection.evicting = false;
  if (connection.draining) CloseIfEmpty();
  for (const auto& [job, match] : connection.placements.EndWaits()) {
    CountPrefix(*job, match);
  }
  const auto began = flight_.Now();
  const auto coming = Coming();
  const bool keeps_control =
      others_wait || connection.draining || coming.size() < placements().size();
  PlannedRound round =
      PlanRound(coming, *connection.policy, connection.plan_options,
                {.others_wait = keeps_control, .now = now});
  if (round.empty()) {
    connection.outcome_at.reset();
    const std::vector<SpanId> ended = connection.told_spans.TakeEnded();
    if (!ended.empty()) link_.client->EndSpans(epoch_, ended);
    return;
  }
  changed_ = true;
  if (round.plan.lease &&
      !connection.placements.GrowFor(round.sequences, round.plan)) {
    round.plan.lease.reset();
  }
  connection.placements.AddCopies(round.prefills, round.sequences, round.plan);
  const uint64_t plan_number = connection.next_plan_number++;
  link_.client->Send(epoch_, plan_number, round.plan,
                     connection.told_spans.TraceOf(round));
  RoundMetrics metrics = MetricsOf(round.plan);
  metrics.budget = round.choice.budget;
  metrics.draft = round.plan.draft;
  metrics.off_reason = round.choice.off_reason;
  metrics.predicted_seconds = round.choice.predicted_seconds;
  const TimePoint sent = std::chrono::steady_clock::now();
  metrics.host_seconds =
      connection.outcome_at ? Seconds(*connection.outcome_at, sent) : 0;
  const TimePoint deadline =
      DeadlineOf(round.plan, options_.round_timeout, now);
  connection.in_flight = {.plan_number = plan_number,
                          .awaited = {.plan = std::move(round.plan)},
                          .prefills = std::move(round.prefills),
                          .sequences = std::move(round.sequences),
                          .trees = std::move(round.trees),
                          .tree_node = std::move(round.tree_node),
                          .off_reason = round.choice.off_reason,
                          .started = now,
                          .measured = sent,
                          .deadline = deadline,
                          .metrics = metrics};
  flight_.Sent(epoch_, placements(), keeps_control, began,
               *connection.in_flight);
}

}  // namespace bole
