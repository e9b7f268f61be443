// The part of WorkerPool that is only used if the pool is shared with other
// schedulers.
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scheduler_service/links/worker_pool.h"

namespace bole {
namespace {

using std::chrono::steady_clock;

Claims::Loss LossOf(const WorkerLost& lost) {
  if (lost.closed) return Claims::Loss::kClosed;
  return absl::IsAborted(lost.why) ? Claims::Loss::kSentAway
                                   : Claims::Loss::kOther;
}

}  // namespace

void WorkerPool::Leave() {
  MutexLock lock(mutex_);
  if (claims_) claims_->Leave();
}

PoolShares WorkerPool::shares() const {
  MutexLock lock(mutex_);
  return claims_ ? claims_->shares() : PoolShares();
}

void WorkerPool::Run() {
  while (true) {
    Clients ended;  // Destroyed after the lock is released: their threads may
                    // wait for it.
    MutexLock lock(mutex_);
    if (stopping_) return;
    ended.swap(let_go_);
    Tick();
    stopped_.WaitUntil(mutex_, steady_clock::now() + options_.shared->tick);
  }
}

void WorkerPool::Tick() {
  const SharedPoolOptions& shared = *options_.shared;
  for (const Claims::Order& order :
       claims_->Decide(shared.place_of, steady_clock::now())) {
    Obey(order);
  }
  if (shared.on_shares) shared.on_shares(claims_->shares());
}

void WorkerPool::Obey(const Claims::Order& order) {
  auto& [address, member] = *Find(order.worker);
  switch (order.kind) {
    case Claims::Order::Kind::kAsk:
      member.why = order.why;
      member.told_answers = true;  // A refusal is more informative.
      member.client->Connect();
      return;
    case Claims::Order::Kind::kGiveBack:
      Note(absl::StrCat("gives back worker ", address, ": ", order.why));
      break;
    case Claims::Order::Kind::kKeep:
      if (member.draining) return;
      Note(absl::StrCat("keeps worker ", address, ": ", order.why));
      break;
  }
  sink_({.worker = order.worker,
         .news = WorkerDraining{
             .epoch = member.epoch,
             .draining = order.kind == Claims::Order::Kind::kGiveBack}});
}

void WorkerPool::Follow(WorkerId worker, const WorkerNews& news) {
  auto* const at = Find(worker);
  if (at == nullptr) return;  // It was let go.
  auto& [address, member] = *at;
  if (const auto* connected = std::get_if<WorkerConnected>(&news)) {
    member.epoch = connected->epoch;
    member.draining = false;
    const absl::StatusOr<std::string> model =
        options_.shared->model_of(connected->description);
    claims_->Connected(worker, model.value_or(""), steady_clock::now());
    Note(absl::StrCat("has claimed worker ", address, ": ", member.why));
  } else if (std::holds_alternative<WorkerDraining>(news)) {
    member.draining = true;
  } else if (const auto* lost = std::get_if<WorkerLost>(&news)) {
    if (lost->closed) {
      Note(absl::StrCat(
          member.draining ? "has let go worker " : "has given back worker ",
          address));
      member.told_answers = false;
    }
    claims_->Lost(worker, LossOf(*lost), steady_clock::now());
  }
}

void WorkerPool::OnLook(WorkerId worker,
                        const absl::StatusOr<WorkerDescription>& description) {
  MutexLock lock(mutex_);
  auto* const at = Find(worker);
  if (at == nullptr) return;  // It was let go.
  if (!description.ok()) {
    claims_->Unreachable(worker);
    return TellLost(worker, description.status());
  }
  const absl::StatusOr<std::string> model =
      options_.shared->model_of(*description);
  claims_->Described(worker, model.value_or(""), steady_clock::now());
  if (!model.ok()) return TellLost(worker, model.status());
  Member& member = at->second;
  if (member.told_answers) return;
  TellLost(worker, absl::UnavailableError("it is left to other schedulers"));
  member.told_answers = true;
}

void WorkerPool::TellLost(WorkerId worker, const absl::Status& why) {
  Find(worker)->second.told_answers = false;
  sink_({.worker = worker, .news = WorkerLost{.epoch = 0, .why = why}});
}

void WorkerPool::Note(const std::string& what) const {
  if (options_.shared->note) options_.shared->note(what);
}

}  // namespace bole
