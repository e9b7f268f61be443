#include "scheduler_service/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace bole {
namespace {

double Seconds(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

// What a worker can do of what was asked.
PlanOptions PlanOptionsFor(const Speculation& speculation,
                           const WorkerDescription& worker) {
  PlanOptions options{.limits = worker.limits, .draft = std::nullopt};
  if (speculation.mode == SpeculationMode::kOff || !worker.has_drafter) {
    return options;
  }
  const DraftShape& most = worker.limits.max_draft;
  options.draft = {.top_k = std::min(speculation.shape.top_k, most.top_k),
                   .depth = std::min(speculation.shape.depth, most.depth)};
  options.max_nodes_per_tree = speculation.nodes;
  if (speculation.mode == SpeculationMode::kChain) {
    options.draft->top_k = 1;
    options.max_nodes_per_tree = options.draft->depth + 1;
  }
  options.max_nodes_per_tree =
      std::min(options.max_nodes_per_tree, worker.limits.max_nodes_per_tree);
  return options;
}

absl::Status BrokenProtocol(const absl::AlphaNum& what) {
  return absl::InternalError(
      absl::StrCat("the worker broke the protocol: ", what));
}

int NumPrefillTokens(const StepPlan& plan) {
  int tokens = 0;
  for (const PrefillPlan& chunk : plan.prefills) {
    tokens += static_cast<int>(chunk.tokens.size());
  }
  return tokens;
}

// Counts a forest that the worker chose.
void CountNodes(const PackedForest& forest, RoundMetrics& metrics) {
  metrics.nodes = forest.num_nodes();
  metrics.sequences = 0;
  for (int b = 0; b < forest.num_requests(); ++b) {
    metrics.sequences +=
        forest.first_node[b + 1] > forest.first_node[b] ? 1 : 0;
  }
  metrics.draft_nodes = metrics.nodes - metrics.sequences;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options,
                     const Tokenizer& tokenizer, Metrics& metrics,
                     WorkerClient& worker, OnDequeued on_dequeued)
    : options_(options),
      tokenizer_(tokenizer),
      metrics_(metrics),
      worker_(worker),
      on_dequeued_(std::move(on_dequeued)) {}

void Scheduler::Handle(Mail mail, TimePoint now) {
  now_ = now;
  for (std::unique_ptr<Request>& request : mail.requests) {
    Enqueue(std::make_unique<Sequence>(std::move(request), tokenizer_));
  }
  for (WorkerEvent& event : mail.events) {
    std::visit([this](auto& e) { On(std::move(e)); }, event);
  }
  CheckDeadline();
  if (mail.stopped) EndAll(absl::UnavailableError("the server is stopping"));
  Sweep();
  if (batch_ && !in_flight_) StartRound();
  Deliver();
}

void Scheduler::Enqueue(std::unique_ptr<Sequence> sequence) {
  const auto later = [](TimePoint arrival,
                        const std::unique_ptr<Sequence>& other) {
    return arrival < other->request().arrival;
  };
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(),
                                   sequence->request().arrival, later),
                  std::move(sequence));
}

void Scheduler::On(WorkerConnected event) {
  BOLE_CHECK(event.epoch > epoch_);
  if (batch_) On(WorkerLost{epoch_, absl::AbortedError("superseded")});
  const bool other_model =
      description_ != nullptr &&
      (description_->model != event.description.model ||
       description_->limits.vocabulary != event.description.limits.vocabulary);
  if (other_model) {
    EndAll(absl::UnavailableError("the worker came back with another model"));
  }
  description_ =
      std::make_shared<const WorkerDescription>(std::move(event.description));
  plan_options_ = PlanOptionsFor(options_.speculation, *description_);
  budget_ = std::make_unique<FixedBudget>(plan_options_.max_nodes_per_tree);
  batch_.emplace(description_->limits, plan_options_.draft,
                 plan_options_.max_nodes_per_tree, options_.max_running);
  epoch_ = event.epoch;
  next_plan_number_ = 1;
  worker_draining_ = false;
  closed_ = false;
  outcome_at_.reset();
  last_error_.clear();
}

void Scheduler::On(const WorkerDraining& event) {
  if (event.epoch == epoch_) worker_draining_ = true;
}

void Scheduler::On(const WorkerLost& event) {
  if (!batch_) {
    last_error_ = event.why.ToString();
    return;
  }
  if (event.epoch != epoch_) return;
  last_error_ = event.why.ToString();
  lost_at_ = now_;
  in_flight_.reset();
  while (NumRunning() > 0) {
    std::unique_ptr<Sequence> sequence =
        batch_->Remove(*batch_->running().front());
    sequence->Restart();
    if (++sequence->restarts_after_loss < 2) {
      Enqueue(std::move(sequence));
    } else {
      Finish(std::move(sequence),
             absl::UnavailableError(absl::StrCat(
                 "two workers were lost under this request, the last with: ",
                 last_error_)));
    }
  }
  batch_.reset();
}

void Scheduler::Disconnect(const absl::Status& why) {
  worker_.Disconnect(epoch_, why);
  On(WorkerLost{epoch_, why});
}

void Scheduler::On(WorkerOutcome event) {
  if (!batch_ || event.epoch != epoch_) return;  // The connection is gone.
  if (!in_flight_ || event.plan_number != in_flight_->plan_number) {
    return Disconnect(BrokenProtocol(absl::StrCat(
        "it answered plan ", event.plan_number, ", awaited is ",
        in_flight_ ? absl::StrCat("plan ", in_flight_->plan_number) : "none")));
  }
  if (!event.result.ok()) return FailRound(event.result.status());
  const absl::Status valid =
      ValidateResult(in_flight_->awaited, plan_options_.limits, *event.result);
  if (!valid.ok()) {
    return Disconnect(BrokenProtocol(absl::StrCat(
        "its result of plan ", event.plan_number, ": ", valid.message())));
  }
  InFlight& round = *in_flight_;
  outcome_at_ = now_;
  round.metrics.round_seconds = Seconds(round.sent, now_);
  round.metrics.step_seconds = event.step_seconds;
  if (event.result->forest) CountNodes(*event.result->forest, round.metrics);
  if (event.result->is_last) {
    Apply(*std::move(event.result));
    in_flight_.reset();
    return;
  }
  AdvanceRound(plan_options_.limits, *event.result, round.awaited);
  Apply(*std::move(event.result));
  round.sent = now_;
  round.deadline = DeadlineOf(round.awaited.plan);
  round.metrics.prefill_tokens = 0;
  round.metrics.host_seconds = 0;
}

void Scheduler::FailRound(const absl::Status& refusal) {
  const InFlight round = *std::exchange(in_flight_, std::nullopt);
  outcome_at_ = now_;
  const absl::Status why = absl::InternalError(
      absl::StrCat("the worker refused the round: ", refusal.message()));
  for (auto* sequences : {&round.prefills, &round.sequences}) {
    for (Sequence* sequence : *sequences) {
      if (sequence != nullptr) End(*sequence, why);
    }
  }
}

void Scheduler::Apply(StepResult result) {
  // A sequence that ends becomes null in the round.
  const InFlight& round = *in_flight_;
  RoundMetrics metrics = round.metrics;
  for (size_t i = 0; i < round.prefills.size(); ++i) {
    if (round.prefills[i] == nullptr) continue;
    Advance(*round.prefills[i], std::move(result.prefills[i]), metrics);
  }
  for (size_t i = 0; i < round.sequences.size(); ++i) {
    if (round.sequences[i] == nullptr) continue;
    const SequenceResult& of = result.sequences[i];
    if (of.emitted.empty() && !of.bad_logits_position) continue;
    metrics.accepted_drafts += of.accepted_drafts;
    if (!of.emitted.empty()) {
      metrics_.Accepted(static_cast<int>(of.emitted.size()),
                        of.accepted_drafts);
    }
    Advance(*round.sequences[i], std::move(result.sequences[i]), metrics);
  }
  metrics_.Round(metrics);
}

void Scheduler::Advance(Sequence& sequence, SequenceResult result,
                        RoundMetrics& metrics) {
  const std::optional<int32_t> bad_position = result.bad_logits_position;
  Sequence::Progress progress = sequence.Advance(std::move(result));
  const int num_tokens = static_cast<int>(progress.tokens.size());
  metrics.emitted_tokens += num_tokens;
  if (num_tokens > 0) {
    if (sequence.first_token) {
      metrics_.InterToken(Seconds(sequence.last_token, now_), num_tokens);
    } else {
      sequence.first_token = now_;
      metrics_.FirstToken(Seconds(sequence.request().arrival, now_));
    }
    sequence.last_token = now_;
    deliveries_.push_back({.stream = sequence.request().stream,
                           .tokens = std::move(progress.tokens),
                           .text = std::move(progress.text),
                           .end = std::nullopt});
  }
  if (progress.end) {
    End(sequence, CompletionOf(sequence, *std::move(progress.end)));
  } else if (bad_position) {
    metrics_.BadLogits();
    End(sequence,
        absl::InternalError(absl::StrCat("the model's logits at position ",
                                         *bad_position, " are not numbers")));
  }
}

Completion Scheduler::CompletionOf(const Sequence& sequence,
                                   MatchedStop matched) const {
  const TimePoint arrival = sequence.request().arrival;
  return {.matched = std::move(matched),
          .rounds = sequence.rounds(),
          .accepted_drafts = sequence.accepted_drafts(),
          .queue_seconds = Seconds(arrival, *sequence.first_run),
          .first_token_seconds = Seconds(arrival, *sequence.first_token),
          .total_seconds = Seconds(arrival, now_)};
}

void Scheduler::StartRound() {
  std::vector<std::unique_ptr<Sequence>> evicted = batch_->Grow();
  if (evicted.empty()) Admit();
  for (std::unique_ptr<Sequence>& sequence : evicted) {
    metrics_.Preempted();
    Enqueue(std::move(sequence));
  }
  if (worker_draining_ && NumRunning() == 0 && !closed_) {
    closed_ = true;
    worker_.Close(epoch_);
  }
  PlannedRound round = PlanRound(batch_->running(), *budget_, plan_options_);
  if (round.empty()) {
    outcome_at_.reset();
    return;
  }
  Lend(round);
  const uint64_t plan_number = next_plan_number_++;
  worker_.Send(epoch_, plan_number, round.plan);
  RoundMetrics metrics;
  metrics.sequences = static_cast<int>(round.sequences.size());
  metrics.nodes = round.plan.forest.num_nodes();
  metrics.draft_nodes = metrics.nodes - metrics.sequences;
  metrics.prefill_tokens = NumPrefillTokens(round.plan);
  const TimePoint sent = std::chrono::steady_clock::now();
  metrics.host_seconds = outcome_at_ ? Seconds(*outcome_at_, sent) : 0;
  const TimePoint deadline = DeadlineOf(round.plan);
  in_flight_ = {.plan_number = plan_number,
                .awaited = {.plan = std::move(round.plan)},
                .prefills = std::move(round.prefills),
                .sequences = std::move(round.sequences),
                .sent = sent,
                .deadline = deadline,
                .metrics = metrics};
}

TimePoint Scheduler::DeadlineOf(const StepPlan& plan) const {
  const auto timeout = std::chrono::duration<double>(options_.round_timeout);
  const double share =
      1 + static_cast<double>(NumPrefillTokens(plan)) / kTokensPerRoundTimeout;
  return now_ +
         std::chrono::duration_cast<TimePoint::duration>(timeout * share);
}

void Scheduler::CheckDeadline() {
  if (!in_flight_ || now_ < in_flight_->deadline) return;
  const StepPlan& plan = in_flight_->awaited.plan;
  Disconnect(absl::DeadlineExceededError(absl::StrCat(
      "plan ", in_flight_->plan_number, ", round ", in_flight_->awaited.round,
      ", with ", NumPrefillTokens(plan), " prefill tokens and ",
      plan.sequences.size(),
      " decoding sequences was not answered in time, by ",
      "a round timeout of ", options_.round_timeout.count(), " ms")));
}

// While there is nothing to decide, the worker decides by itself.
void Scheduler::Lend(PlannedRound& round) {
  const int rounds =
      std::min(options_.lease_rounds, plan_options_.limits.max_lease_rounds);
  if (rounds < 2 || !waiting_.empty() || worker_draining_ ||
      !round.prefills.empty() || round.sequences.empty()) {
    return;
  }
  const Lease lease{.rounds = rounds,
                    .budget = round.budget,
                    .max_nodes_per_tree = plan_options_.max_nodes_per_tree};
  if (!batch_->GrowFor(lease)) return;
  round.plan.lease = lease;
  for (size_t i = 0; i < round.sequences.size(); ++i) {
    round.plan.sequences[i].pages = round.sequences[i]->pages;
  }
}

void Scheduler::Admit() {
  while (!waiting_.empty() && !worker_draining_) {
    if (absl::Status fits = batch_->Fits(*waiting_.front()); !fits.ok()) {
      std::unique_ptr<Sequence> sequence = std::move(waiting_.front());
      waiting_.pop_front();
      Finish(std::move(sequence), std::move(fits));
      continue;
    }
    Sequence& sequence = *waiting_.front();
    if (!batch_->Admit(waiting_.front())) return;
    waiting_.pop_front();
    if (!sequence.first_run) {
      sequence.first_run = now_;
      metrics_.Queued(Seconds(sequence.request().arrival, now_));
      metrics_.PromptTokens(sequence.prompt_length());
      on_dequeued_(sequence.request());
    }
  }
}

}  // namespace bole
