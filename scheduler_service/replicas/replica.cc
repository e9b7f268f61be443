// The part of Replica for the connection and for the outcome of rounds:
// results, ends, losses. replica_rounds.cc decides who gets a place and plans
// rounds. Both change the same state, the placements and the round in flight,
// so they are one class, which is too long for one file.
#include "scheduler_service/replicas/replica.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/step_costs.h"
#include "scheduler_service/jobs/failure.h"
#include "scheduler_service/policy/make_policy.h"
#include "scheduler_service/replicas/host_tier.h"
#include "scheduler_service/replicas/round_report.h"

namespace bole {
namespace {

double Seconds(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

absl::Status BrokenProtocol(const absl::AlphaNum& what) {
  return absl::InternalError(
      absl::StrCat("the worker broke the protocol: ", what));
}

std::optional<PrefixCacheOptions> CacheOptionsFor(
    const WorkerDescription& worker, bool wanted) {
  if (!wanted || !CopiesMemory(worker)) return std::nullopt;
  PrefixCacheOptions options{.page_size = worker.limits.page_size};
  if (worker.slot_bytes > 0 && worker.page_bytes > 0) {
    options.slot_bytes = static_cast<double>(worker.slot_bytes);
    options.page_bytes = static_cast<double>(worker.page_bytes);
  }
  return options;
}

// The time per token of the longest possible chunk at the beginning of a text.
double TokenSecondsOf(const WorkerDescription& worker) {
  if (worker.costs == nullptr) return kLeastTokenSeconds;
  const double tokens = worker.limits.max_prefill_tokens;
  RoundQuantities chunk{};
  for (const Quantity quantity :
       {Quantity::kPrefillTokens, Quantity::kForwardRows}) {
    chunk[static_cast<size_t>(quantity)] = tokens;
  }
  const std::chrono::duration<double> time = worker.costs->costs.TimeOf(chunk);
  return time.count() / tokens;
}

}  // namespace

const char* NameOf(Displacement reason) {
  switch (reason) {
    case Displacement::kEvicted:
      return "evicted";
    case Displacement::kPreempted:
      return "preempted";
    case Displacement::kMoved:
      return "drained";
    case Displacement::kLost:
    case Displacement::kLostInRound:
      return "lost";
  }
  return "";
}

Replica::Connection::Connection(const WorkerDescription& worker,
                                std::unique_ptr<RoundPolicy> its_policy,
                                const ReplicaOptions& options)
    : policy(std::move(its_policy)),
      plan_options{
          .limits = worker.limits,
          .bounds = policy->bounds(),
          .knows_bounds = worker.protocol_version >= kDeferralProtocolVersion},
      placements(plan_options.limits, plan_options.bounds, options.max_running,
                 CacheOptionsFor(worker, options.prefix_cache),
                 TokenSecondsOf(worker)) {}

Replica::Replica(const WorkerAdded& link, const ReplicaOptions& options,
                 Metrics& metrics, ReplicaOwner& owner)
    : link_(link),
      options_(options),
      metrics_(metrics),
      owner_(owner),
      flight_(options.flight) {}

bool Replica::accepts() const {
  return connected() && !connection_->draining && !connection_->evicting;
}

bool Replica::CanBeTrustedWith(const Job& job) const {
  return accepts() && !on_trial_ && placements().Fits(job).ok();
}

int Replica::num_running() const {
  return connected() ? static_cast<int>(placements().size()) : 0;
}

void Replica::On(WorkerConnected event, std::shared_ptr<DraftHistory> history,
                 const std::string& model) {
  BOLE_CHECK(event.epoch > epoch_ && !connected());
  changed_ = true;
  epoch_ = event.epoch;
  description_ =
      std::make_shared<const WorkerDescription>(std::move(event.description));
  model_ = model;
  series_ = &metrics_.Of(model);
  connection_.emplace(
      *description_,
      MakePolicy(options_.policy, *description_, std::move(history)), options_);
  last_error_.clear();
}

void Replica::On(const WorkerDraining& event) {
  if (!connected() || event.epoch != epoch_ || connection_->closed) return;
  changed_ = true;
  connection_->draining = event.draining;
}

void Replica::On(const WorkerLost& event, TimePoint now) {
  if (connected()) {
    if (event.epoch == epoch_) GiveUp(event.why, now);
    return;
  }
  changed_ = true;
  last_error_ = event.why.ToString(absl::StatusToStringMode::kWithNoExtraData);
}

void Replica::GiveUp(const absl::Status& why, TimePoint now) {
  if (!connected()) return;
  changed_ = true;
  last_error_ = why.ToString(absl::StatusToStringMode::kWithNoExtraData);
  lost_at_ = now;
  on_trial_ = true;
  std::vector<Placement*> in_flight;
  if (connection_->in_flight) {
    in_flight = connection_->in_flight->placements();
    flight_.Lost(*connection_->in_flight);
  }
  std::sort(in_flight.begin(), in_flight.end());
  std::vector<std::pair<Job*, Displacement>> jobs;
  jobs.reserve(placements().size());
  for (const std::unique_ptr<Placement>& placement : placements().all()) {
    const bool ran =
        std::binary_search(in_flight.begin(), in_flight.end(), placement.get());
    jobs.emplace_back(&placement->job(),
                      ran ? Displacement::kLostInRound : Displacement::kLost);
  }
  connection_.reset();
  for (const auto& [job, reason] : jobs) owner_.OnDisplaced(*job, reason, why);
}

void Replica::Disconnect(const absl::Status& why, TimePoint now) {
  link_.client->Disconnect(epoch_, why);
  GiveUp(why, now);
}

void Replica::Refuse(const WorkerConnected& event, const absl::Status& why) {
  BOLE_CHECK(event.epoch > epoch_ && !connected());
  changed_ = true;
  epoch_ = event.epoch;
  last_error_ = why.ToString(absl::StatusToStringMode::kWithNoExtraData);
  link_.client->Disconnect(epoch_, why);
}

void Replica::On(WorkerOutcome event, TimePoint now) {
  if (!connected() || event.epoch != epoch_) return;
  changed_ = true;
  const auto began = flight_.Now();
  std::optional<RoundInFlight>& in_flight = connection_->in_flight;
  if (!in_flight || event.plan_number != in_flight->plan_number) {
    return Disconnect(
        BrokenProtocol(absl::StrCat(
            "it answered plan ", event.plan_number, ", awaited is ",
            in_flight ? absl::StrCat("plan ", in_flight->plan_number)
                      : "none")),
        now);
  }
  if (!event.result.ok()) return FailRound(event.result.status(), now);
  const StepLimits& limits = connection_->plan_options.limits;
  const absl::Status valid =
      ValidateResult(in_flight->awaited, limits, *event.result);
  if (!valid.ok()) {
    return Disconnect(
        BrokenProtocol(absl::StrCat("its result of plan ", event.plan_number,
                                    ": ", valid.message())),
        now);
  }
  RoundInFlight& round = *in_flight;
  on_trial_ = false;
  connection_->outcome_at = now;
  connection_->pace.Took(Seconds(round.started, now),
                         round.metrics.prefill_tokens);
  round.metrics.round_seconds = Seconds(round.measured, now);
  round.metrics.step_seconds = event.step_seconds;
  if (event.result->forest) CountNodes(*event.result->forest, round.metrics);
  ReportRound(*event.result, round, *connection_->policy);
  connection_->placements.CopiesDone();
  if (event.result->is_last) {
    flight_.Done(Apply(*std::move(event.result)), began, round);
    in_flight.reset();
    return;
  }
  AdvanceRound(limits, *event.result, round.awaited);
  flight_.Done(Apply(*std::move(event.result)), began, round);
  flight_.Next(round);
  round.started = now;
  round.measured = now;
  round.deadline = DeadlineOf(round.awaited.plan, options_.round_timeout, now);
  const std::optional<Lease>& lease = round.awaited.plan.lease;
  round.metrics = {.budget = lease ? lease->budget : 0,
                   .draft = round.metrics.draft,
                   .off_reason = round.metrics.off_reason};
}

void Replica::FailRound(const absl::Status& refusal, TimePoint now) {
  RoundInFlight round = *std::exchange(connection_->in_flight, std::nullopt);
  flight_.Refused(round);
  connection_->outcome_at = now;
  connection_->placements.CopiesRefused();
  const bool ran_alone = round.num_planned() == 1;
  for (Placement* placement : round.placements()) {
    placement->job().was_refused = true;
    if (!ran_alone) continue;
    End(*placement,
        Failed(
            FailureReason::kWorkerFailed,
            absl::StrCat("the worker refused the round: ", refusal.message())),
        /*keep=*/false);
  }
}

RoundMetrics Replica::Apply(StepResult result) {
  // A placement that is dropped becomes null in the round.
  const RoundInFlight& round = *connection_->in_flight;
  RoundMetrics metrics = round.metrics;
  for (size_t i = 0; i < round.prefills.size(); ++i) {
    if (round.prefills[i] == nullptr) continue;
    Advance(*round.prefills[i], std::move(result.prefills[i]), {}, metrics);
  }
  for (size_t i = 0; i < round.sequences.size(); ++i) {
    if (round.sequences[i] == nullptr) continue;
    const SequenceResult& of = result.sequences[i];
    if (of.emitted.empty() && !of.bad_logits_position) continue;
    metrics.accepted_drafts += of.accepted_drafts;
    if (!of.emitted.empty()) {
      series_->Accepted(static_cast<int>(of.emitted.size()),
                        of.accepted_drafts);
    }
    Advance(*round.sequences[i], std::move(result.sequences[i]),
            {.deferred = round.awaited.plan.defers_draft,
             .is_last = result.is_last},
            metrics);
  }
  series_->Round(metrics);
  return metrics;
}

void Replica::Advance(Placement& placement, SequenceResult result,
                      const Advanced& how, RoundMetrics& metrics) {
  const std::optional<int32_t> bad_position = result.bad_logits_position;
  placement.job().was_refused = false;
  Job::Progress progress = placement.Advance(std::move(result), how.deferred);
  metrics.emitted_tokens += static_cast<int>(progress.tokens.size());
  if (!bad_position && placement.lacks_prompt_logprobs()) {
    return End(placement,
               absl::UnimplementedError("the worker's version does not report "
                                        "log probabilities of the prompt"),
               /*keep=*/false);
  }
  const std::optional<MatchedStop> end = progress.end;
  if (!progress.tokens.empty()) {
    owner_.OnAdvanced(placement.job(), std::move(progress));
  }
  if (end) {
    End(placement, *end, /*keep=*/how.is_last && !bad_position);
  } else if (bad_position) {
    metrics_.BadLogits();
    End(placement,
        Failed(FailureReason::kWorkerFailed,
               absl::StrCat("the model's logits at position ", *bad_position,
                            " are not numbers")),
        /*keep=*/false);
  } else {
    connection_->placements.Passed(placement);
  }
}

void Replica::End(Placement& placement, absl::StatusOr<MatchedStop> end,
                  bool keep) {
  Job& job = placement.job();
  Drop(placement, keep);
  owner_.OnEnded(job, std::move(end));
}

void Replica::Drop(Placement& placement, bool keep) {
  changed_ = true;
  if (connection_->in_flight) connection_->in_flight->Forget(placement);
  connection_->told_spans.Forget(placement);
  connection_->placements.Drop(placement, keep);
}

void Replica::Drop(const Job& job) {
  Drop(placements().Find(job), /*keep=*/free() && !job.is_suspect());
}

void Replica::Displace(Job& job, Displacement reason) {
  Drop(job);
  owner_.OnDisplaced(job, reason, absl::OkStatus());
}

TimePoint Replica::deadline() const {
  return connected() && connection_->in_flight
             ? connection_->in_flight->deadline
             : TimePoint::max();
}

void Replica::CheckDeadline(TimePoint now) {
  if (now < deadline()) return;
  const RoundInFlight& round = *connection_->in_flight;
  const StepPlan& plan = round.awaited.plan;
  Disconnect(absl::DeadlineExceededError(absl::StrCat(
                 "plan ", round.plan_number, ", round ", round.awaited.round,
                 ", with ", NumPrefillTokens(plan), " prefill tokens and ",
                 plan.sequences.size(),
                 " decoding sequences was not answered in time, by ",
                 "a round timeout of ", options_.round_timeout.count(), " ms")),
             now);
}

const WorkerStatus& Replica::status() {
  if (changed_) UpdateStatus();
  changed_ = false;
  return status_;
}

void Replica::UpdateStatus() {
  status_ = {.name = link_.name,
             .description = description_,
             .model = model_,
             .connected = connected(),
             .draining = draining(),
             .epoch = epoch_,
             .last_error = last_error_,
             .running = num_running()};
  if (!connected()) return;
  status_.policy_fallback = connection_->policy->fallback();
  status_.in_prefill = placements().NumInPrefill();
  status_.slots = placements().slots();
  status_.num_checkpoints = placements().num_checkpoints();
  status_.num_evicted = placements().num_evicted();
  if (const HostTier* host = placements().host()) {
    status_.host = host->status();
  }
  status_.pages = placements().pages();
  status_.audit = placements().Audit();
  if (status_.audit.empty() && free() && num_running() > 0) {
    status_.audit = absl::StrCat(num_running(),
                                 " requests run, but the worker has no plan");
  }
}

}  // namespace bole
