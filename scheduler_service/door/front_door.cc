#include "scheduler_service/door/front_door.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scheduler_service/models/worker_presence.h"

namespace bole {
namespace {

// Encoding takes less than a tenth of the time of the loop and of the network.
int NumDeliveryThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 4, 2, 8);
}

OpenCallsLimits WatchLimits(const DoorLimits& limits) {
  return {.max_held_bytes = limits.max_output_bytes,
          .stalled_after = limits.stalled_reader};
}

std::optional<Refusal> CheckWorkers(const WorkerPresence::Snapshot& workers) {
  if (workers.ready()) return std::nullopt;
  if (workers.draining) {
    return Refusal{.reason = RefusalReason::kNoWorker,
                   .message = "the worker is shutting down"};
  }
  return Refusal{.reason = RefusalReason::kNoWorker,
                 .message = absl::StrCat(
                     "no worker is connected",
                     workers.last_error.empty() ? "" : "; the last error was ",
                     workers.last_error)};
}

}  // namespace

FrontDoor::FrontDoor(const DoorLimits& limits, const AskedModels& models,
                     SchedulerLoop& loop, prometheus::Registry& registry,
                     Access* access, const RequestWatcher* watcher)
    : limits_(limits),
      models_(models),
      loop_(loop),
      access_(access),
      watcher_(watcher),
      metrics_(registry),
      delivery_(NumDeliveryThreads(), /*max_waiting=*/SIZE_MAX),
      long_generates_(/*num_threads=*/1, limits.max_long_messages),
      long_texts_(/*num_threads=*/1, limits.max_long_messages),
      open_calls_(WatchLimits(limits),
                  [this](const OpenCallsLoad& load) { ReportLoad(load); }) {}

void FrontDoor::ReportLoad(const OpenCallsLoad& load) {
  metrics_.SetLoad({.open_requests = load.calls,
                    .undelivered_bytes = load.undelivered_bytes,
                    .kept_bytes = load.kept_bytes,
                    .long_generates = long_generates_.num_waiting(),
                    .long_texts = long_texts_.num_waiting()});
}

Refusal FrontDoor::Timed(Refusal refusal) const {
  if (IsFull(refusal.reason) && !refusal.retry_after) {
    refusal.retry_after = loop_.RetryDelay();
  }
  return refusal;
}

std::optional<Refusal> FrontDoor::CheckCalls() const {
  const size_t open = open_calls_.size();  // This one included.
  if (open > limits_.max_open_requests) {
    return FullRefusal(RefusalReason::kTooManyOpen, open - 1,
                       limits_.max_open_requests);
  }
  const size_t held = open_calls_.held_bytes();
  if (held >= limits_.max_output_bytes) {
    return FullRefusal(RefusalReason::kHeldOutput, held,
                       limits_.max_output_bytes);
  }
  return std::nullopt;
}

std::variant<Identity, Refusal> FrontDoor::Identified(
    const RequestHead& head, std::optional<Scope> scope) const {
  if (access_ != nullptr) {
    return access_->Authorize(head.authorization, head.tenant, scope);
  }
  absl::StatusOr<Identity> who = Identify(head.tenant);
  if (!who.ok()) return RefusalOf(who.status());
  return *std::move(who);
}

std::optional<Refusal> FrontDoor::Authorize(const RequestHead& head,
                                            std::optional<Scope> scope) const {
  auto who = Identified(head, scope);
  if (auto* refusal = std::get_if<Refusal>(&who)) return std::move(*refusal);
  return std::nullopt;
}

std::string FrontDoor::TenantOf(const RequestHead& head) const {
  auto who = Identified(head, std::nullopt);
  const auto* identity = std::get_if<Identity>(&who);
  return identity != nullptr ? identity->tenant : "";
}

std::variant<FrontDoor::Entry, Refusal> FrontDoor::Enter(
    const RequestHead& head) const {
  if (draining()) return DrainingRefusal();
  auto identified = Identified(head, Scope::kGenerate);
  if (auto* refusal = std::get_if<Refusal>(&identified)) return *refusal;
  auto& who = std::get<Identity>(identified);
  absl::StatusOr<AskedModel> model = models_.Find(head.model);
  if (!model.ok()) return RefusalOf(model.status());
  std::optional<Refusal> refusal = CheckWorkers(model->workers);
  if (!refusal) refusal = CheckCalls();
  if (!refusal && access_ != nullptr) refusal = access_->Check(who);
  if (!refusal) refusal = loop_.Check(who.tenant, head.bytes);
  if (refusal) return Timed(*std::move(refusal));
  return Entry{.who = std::move(who), .model = *std::move(model)};
}

std::optional<Refusal> FrontDoor::Check(const RequestHead& head) const {
  auto entered = Enter(head);
  if (auto* refusal = std::get_if<Refusal>(&entered)) return *refusal;
  return std::nullopt;
}

std::variant<ReadMessage, Refusal> FrontDoor::Read(const RequestHead& head,
                                                   const ReadBody& read) const {
  auto entered = Enter(head);
  if (auto* refusal = std::get_if<Refusal>(&entered)) return *refusal;
  auto& [who, model] = std::get<Entry>(entered);
  std::shared_ptr<TenantSeat> seat;
  if (access_ != nullptr) {
    auto taken = access_->Enter(who);
    if (auto* refusal = std::get_if<Refusal>(&taken)) return Timed(*refusal);
    seat = std::get<std::shared_ptr<TenantSeat>>(std::move(taken));
  }
  const WorkerDescription& worker = *model.workers.description;
  absl::StatusOr<RequestBody> body = read(model.text, worker);
  if (!body.ok()) return RefusalOf(body.status());
  absl::StatusOr<ChoiceRequests> choices =
      ToRequests(*std::move(body), *model.text.tokenizer, worker);
  if (!choices.ok()) return RefusalOf(choices.status());
  for (const std::unique_ptr<Request>& request : choices->requests) {
    request->tenant = who.tenant;
    request->model = model.id;
    request->bytes = head.bytes;
    request->seat = seat;
    if (seat != nullptr) seat->Charge(request->prompt.size());
  }
  return ReadMessage{.model = std::move(model), .choices = *std::move(choices)};
}

std::optional<Refusal> FrontDoor::Submit(
    std::span<std::unique_ptr<Request>> requests) {
  std::optional<Refusal> refusal = loop_.Submit(requests);
  if (refusal) refusal = Timed(*std::move(refusal));
  return refusal;
}

Refusal FrontDoor::RefuseLongMessage(const TaskPool& pool) const {
  return Timed(FullRefusal(RefusalReason::kLongMessages, pool.num_waiting(),
                           pool.max_waiting()));
}

}  // namespace bole
