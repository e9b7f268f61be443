#include "scheduler_service/scheduler.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "scheduler_service/jobs/failure.h"
#include "scheduler_service/policy/fixed_policy.h"
#include "scheduler_service/request_audit.h"
#include "scheduler_service/watch/request_watch.h"

namespace bole {
namespace {

double Seconds(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

std::vector<ServedModel> MakeModels(const ModelCatalog& catalog) {
  std::vector<ServedModel> models;
  models.reserve(catalog.size());
  for (int i = 0; i < catalog.size(); ++i) {
    models.emplace_back(catalog.at(ModelId(i)).name);
  }
  return models;
}

RequestWatch* WatchOf(const Job& job) { return job.request().watch.get(); }

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options,
                     const ModelCatalog& catalog, Metrics& metrics,
                     OnDequeued on_dequeued, LetGo let_go)
    : options_(options),
      catalog_(catalog),
      metrics_(metrics),
      on_dequeued_(std::move(on_dequeued)),
      let_go_(std::move(let_go)),
      models_(MakeModels(catalog)) {
  for (int i = 0; i < catalog.size(); ++i) {
    histories_.push_back(std::make_shared<DraftHistory>());
  }
}

void Scheduler::Handle(Mail mail, TimePoint now) {
  now_ = now;
  draining_ = draining_ || mail.draining;
  for (auto& request : mail.requests) Accept(std::move(request));
  for (WorkerEvent& event : mail.events) On(std::move(event));
  for (const auto& [id, worker] : workers_) worker.replica->CheckDeadline(now_);
  LetGoOfRemoved();
  if (mail.stopped) {
    EndAll(Failed(FailureReason::kDraining, "the server is stopping"));
  }
  EndCancelled(mail.cancelled);
  EndOverdue();
  EndForlorn();
  StartRounds();
  Deliver();
}

void Scheduler::Accept(std::unique_ptr<Request> request) {
  const Tokenizer& tokenizer = *catalog_.at(request->model).text.tokenizer;
  auto made = std::make_unique<Job>(std::move(request), tokenizer);
  Job& job = *made;
  if (job.request().deadline != TimePoint::max()) {
    deadlines_.emplace(job.request().deadline, job.id());
  }
  const bool is_new =
      jobs_.emplace(job.id(), Entry{.job = std::move(made)}).second;
  BOLE_CHECK(is_new);
  WaitingWith(job).Push(job);
}

void Scheduler::On(WorkerEvent event) {
  if (const auto* added = std::get_if<WorkerAdded>(&event.news)) {
    return Add(event.worker, *added);
  }
  const auto at = workers_.find(event.worker);
  if (at == workers_.end()) return;  // It was let go.
  Replica& replica = *at->second.replica;
  if (std::holds_alternative<WorkerRemoved>(event.news)) {
    at->second.removed = true;
  } else if (auto* connected = std::get_if<WorkerConnected>(&event.news)) {
    Connect(replica, std::move(*connected));
  } else if (auto* outcome = std::get_if<WorkerOutcome>(&event.news)) {
    replica.On(std::move(*outcome), now_);
  } else if (const auto* draining = std::get_if<WorkerDraining>(&event.news)) {
    replica.On(*draining);
  } else {
    replica.On(std::get<WorkerLost>(event.news), now_);
  }
}

void Scheduler::Add(WorkerId id, const WorkerAdded& link) {
  Worker& worker = workers_[id];
  worker.removed = false;
  if (worker.replica != nullptr) return;
  ReplicaOptions options{.max_running = options_.max_running,
                         .round_timeout = options_.round_timeout,
                         .policy = options_.policy_options(),
                         .prefix_cache = options_.prefix_cache,
                         .flight = options_.flight};
  options.flight.worker_number = id.value();
  ReplicaOwner& owner = *this;
  worker.replica = std::make_unique<Replica>(link, options, metrics_, owner);
}

void Scheduler::LetGoOfRemoved() {
  for (auto at = workers_.begin(); at != workers_.end();) {
    auto& [id, worker] = *at;
    if (worker.removed && !worker.replica->connected()) {
      worker.removed = let_go_(id);
    }
    if (!worker.removed || worker.replica->connected()) {
      ++at;
      continue;
    }
    for (ServedModel& model : models_) model.Leave(*worker.replica);
    at = workers_.erase(at);
  }
}

void Scheduler::Connect(Replica& replica, WorkerConnected event) {
  replica.GiveUp(absl::AbortedError("superseded"), now_);
  for (ServedModel& model : models_) model.Leave(replica);
  const absl::StatusOr<ModelId> id = catalog_.ModelOf(event.description);
  if (!id.ok()) return replica.Refuse(event, id.status());
  ServedModel& model = models_.at(id->value());
  const absl::Status joins = model.CheckJoins(event.description);
  if (!joins.ok()) return replica.Refuse(event, joins);
  replica.On(std::move(event), histories_.at(id->value()), model.name());
  model.Join(replica);
}

void Scheduler::OnAdvanced(Job& job, Job::Progress progress) {
  const int num_tokens = static_cast<int>(progress.tokens.size());
  job.losses = 0;
  if (job.first_token) {
    SeriesOf(job).InterToken(Seconds(job.last_token, now_), num_tokens);
  } else {
    job.first_token = now_;
    SeriesOf(job).FirstToken(Seconds(job.request().arrival, now_));
  }
  job.last_token = now_;
  WaitingWith(job).Charge(job, num_tokens);
  if (auto* watch = WatchOf(job)) watch->Advanced(now_, num_tokens);
  deliveries_.push_back({.stream = job.request().stream,
                         .tokens = std::move(progress.tokens),
                         .text = std::move(progress.text),
                         .prompt_logprobs = std::move(progress.prompt_logprobs),
                         .end = std::nullopt});
}

void Scheduler::OnEnded(Job& job, absl::StatusOr<MatchedStop> end) {
  Unplace(job);
  if (!end.ok()) return Finish(job, end.status());
  Finish(job, job.CompletionAt(now_, *std::move(end)));
}

void Scheduler::OnDisplaced(Job& job, Displacement reason,
                            const absl::Status& why) {
  Entry& entry = jobs_.at(job.id());
  if (reason == Displacement::kLostInRound) {
    ++job.losses;
    entry.lost_on = entry.replica->name();
  }
  Unplace(job);
  if (reason == Displacement::kEvicted || reason == Displacement::kPreempted) {
    metrics_.Preempted();
  }
  if (job.losses > Job::kSuspectLosses) {
    return Finish(
        job,
        Failed(FailureReason::kWorkersLost,
               absl::StrCat(
                   job.losses,
                   " workers were lost under this request, the last "
                   "one while it ran alone: ",
                   why.ToString(absl::StatusToStringMode::kWithNoExtraData))));
  }
  metrics_.Migrated(NameOf(reason));
  if (auto* watch = WatchOf(job)) watch->Displaced(now_, NameOf(reason));
  WaitingWith(job).Push(job);
}

void Scheduler::EndCancelled(const std::vector<JobId>& cancelled) {
  for (const JobId id : cancelled) {
    const auto at = jobs_.find(id);
    if (at == jobs_.end()) continue;
    End(*at->second.job,
        Failed(FailureReason::kCancelled, "the client cancelled"));
  }
}

void Scheduler::EndOverdue() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    Job& job = *jobs_.at(deadlines_.begin()->second).job;
    End(job, Failed(FailureReason::kDeadline,
                    absl::StrCat("the deadline passed after ", job.num_output(),
                                 " output tokens")));
  }
}

void Scheduler::EndForlorn() {
  for (ServedModel& model : models_) {
    if (now_ < ForlornAt(model)) continue;
    EndWaiting(model,
               Failed(FailureReason::kNoWorker,
                      absl::StrCat("no worker is there: ", model.loss()->why)));
  }
}

TimePoint Scheduler::ForlornAt(const ServedModel& model) const {
  if (model.waiting().empty()) return TimePoint::max();
  const std::optional<ServedModel::Loss> loss = model.loss();
  return loss ? loss->at + options_.reconnect_grace : TimePoint::max();
}

void Scheduler::StartRounds() {
  for (ServedModel& model : models_) {
    model.MakeRoom();
    PlaceWaiting(model);
    Preempt(model);
    if (draining_ && options_.frees_workers_early) model.CloseEmpty();
    model.StartRounds(now_);
  }
}

void Scheduler::PlaceWaiting(ServedModel& model) {
  for (;;) {
    Job* const job = model.waiting().Front();
    if (job == nullptr) return;
    const auto place = model.PlaceFor(*job, jobs_.at(job->id()).lost_on, now_);
    if (!place.ok()) {
      End(*job, place.status());
    } else if (*place == nullptr) {
      return;
    } else {
      Place(*job, **place);
    }
  }
}

void Scheduler::Preempt(ServedModel& model) {
  while (auto preemption = model.FindPreemption()) {
    for (Job* victim : preemption->victims) {
      preemption->replica->Displace(*victim, Displacement::kPreempted);
    }
    Place(*preemption->job, *preemption->replica);
  }
}

void Scheduler::Place(Job& job, Replica& replica) {
  Entry& entry = jobs_.at(job.id());
  WaitingWith(job).Remove(job);
  entry.share = replica.placements().ShareOf(job);
  ModelOf(job).held().Add(job.request().tenant, entry.share);
  replica.Place(job, ModelOf(job).CachedElsewhere(job, replica));
  entry.replica = &replica;
  if (auto* watch = WatchOf(job)) watch->Placed(now_, replica.name());
  if (job.first_run) return;
  job.first_run = now_;
  SeriesOf(job).Queued(Seconds(job.request().arrival, now_));
  SeriesOf(job).PromptTokens(job.prompt_length());
  WaitingWith(job).Charge(job, job.prompt_length());
  on_dequeued_(job.request(), /*runs=*/true);
}

void Scheduler::Unplace(const Job& job) {
  Entry& entry = jobs_.at(job.id());
  ModelOf(job).held().Remove(job.request().tenant, entry.share);
  entry.replica = nullptr;
}

void Scheduler::End(Job& job, absl::Status why) {
  Replica* const replica = jobs_.at(job.id()).replica;
  if (replica != nullptr) {
    replica->Drop(job);
    Unplace(job);
  } else {
    WaitingWith(job).Remove(job);
  }
  Finish(job, std::move(why));
}

void Scheduler::EndWaiting(ServedModel& model, const absl::Status& why) {
  while (Job* job = model.waiting().Front()) End(*job, why);
}

void Scheduler::EndAll(const absl::Status& why) {
  for (const auto& [id, worker] : workers_) {
    while (worker.replica->num_running() > 0) {
      End(worker.replica->placements().all().front()->job(), why);
    }
  }
  for (ServedModel& model : models_) EndWaiting(model, why);
}

void Scheduler::Finish(Job& job, absl::StatusOr<Completion> end) {
  const Request& request = job.request();
  if (!job.first_run) on_dequeued_(request, /*runs=*/false);
  const double first_token =
      job.first_token ? Seconds(request.arrival, *job.first_token) : 0;
  metrics_.Ended({.model = ModelOf(job).name(),
                  .tenant = request.tenant,
                  .status = end.status(),
                  .was_stopped = end.ok() && end->matched != MatchedStop(),
                  .total_seconds = Seconds(request.arrival, now_),
                  .first_token_seconds = first_token,
                  .prompt_tokens = job.prompt_length(),
                  .output_tokens = job.num_output()});
  if (auto* watch = WatchOf(job)) watch->Ended(now_, end, job.num_output());
  deliveries_.push_back({.stream = request.stream,
                         .tokens = {},
                         .text = "",
                         .prompt_logprobs = {},
                         .end = std::move(end)});
  deadlines_.erase({request.deadline, job.id()});
  jobs_.erase(job.id());
}

void Scheduler::Deliver() {
  for (Delivery& delivery : deliveries_) {
    if (!delivery.tokens.empty() || !delivery.text.empty()) {
      delivery.stream->Append(std::move(delivery.tokens),
                              std::move(delivery.text),
                              std::move(delivery.prompt_logprobs));
    }
    if (delivery.end) delivery.stream->Finish(*std::move(delivery.end));
  }
  deliveries_.clear();
}

TimePoint Scheduler::NextWakeup() const {
  TimePoint next = TimePoint::max();
  if (!deadlines_.empty()) next = deadlines_.begin()->first;
  for (const auto& [id, worker] : workers_) {
    next = std::min(next, worker.replica->deadline());
  }
  for (const ServedModel& model : models_) {
    next = std::min({next, model.look_again(), ForlornAt(model)});
  }
  return next;
}

const WorkerDescription* Scheduler::AnyDescription() const {
  for (const ServedModel& model : models_) {
    if (model.description() != nullptr) return model.description().get();
  }
  return nullptr;
}

SchedulerStatus Scheduler::status() {
  SchedulerStatus status;
  status.speculation = options_.speculation;
  status.policy = options_.policy;
  for (const ServedModel& model : models_) {
    const FairQueue& waiting = model.waiting();
    status.waiting += static_cast<int>(waiting.size());
    status.models.push_back({.name = model.name(),
                             .running = model.num_running(),
                             .waiting = static_cast<int>(waiting.size()),
                             .waiting_tokens = waiting.tokens(),
                             .waiting_bytes = waiting.bytes()});
  }
  for (const auto& [id, of] : workers_) {
    const WorkerStatus& worker = of.replica->status();
    status.running += worker.running;
    status.slots.total += worker.slots.total;
    status.slots.free += worker.slots.free;
    status.pages.total += worker.pages.total;
    status.pages.free += worker.pages.free;
    if (status.audit.empty() && !worker.audit.empty()) {
      status.audit = absl::StrCat("worker ", worker.name, ": ", worker.audit);
    }
    status.workers.push_back(worker);
  }
  if (const WorkerDescription* model = AnyDescription()) {
    const RoundBounds bounds =
        BoundsFor(options_.speculation, model->limits, model->has_drafter);
    status.speculation.nodes = bounds.max_nodes_per_tree;
    if (bounds.draft) {
      status.speculation.shape = *bounds.draft;
    } else {
      status.speculation.mode = SpeculationMode::kOff;
    }
  }
  status.audit = AuditRequests(jobs_.size(), models_, status);
  return status;
}

}  // namespace bole
