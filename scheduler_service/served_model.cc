#include "scheduler_service/served_model.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler_service/jobs/failure.h"
#include "scheduler_service/replicas/placements.h"
#include "scheduler_service/replicas/router.h"

namespace bole {
namespace {

// A tenant takes no places from one that it leads by more tokens than this. The
// value has to be larger than the prompts of a burst, for which a tenant is
// charged at once, and small compared with what a tenant is served in a minute.
constexpr int64_t kMaxPreemptingLead = 16'384;

}  // namespace

absl::Status ServedModel::CheckJoins(const WorkerDescription& worker) const {
  const bool matters = IsAnyConnected() || !waiting_.empty();
  if (description_ == nullptr || !matters) return absl::OkStatus();
  const int there = description_->limits.vocabulary;
  if (worker.limits.vocabulary == there) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "the worker's model \"", worker.model, "\" has a vocabulary of ",
      worker.limits.vocabulary, ", the others have ", there));
}

void ServedModel::Join(Replica& replica) {
  Leave(replica);
  replicas_.push_back(&replica);
  description_ = replica.description();
}

void ServedModel::Leave(const Replica& replica) {
  if (std::erase(replicas_, &replica) == 0 || replica.connected()) return;
  last_loss_ = {.at = replica.lost_at(), .why = replica.last_error()};
}

void ServedModel::MakeRoom() {
  look_again_ = TimePoint::max();
  for (Replica* replica : replicas_) {
    if (replica->free()) replica->MakeRoom();
  }
  for (Replica* replica : replicas_) {
    if (replica->free() && replica->draining()) MoveFrom(*replica);
  }
}

void ServedModel::MoveFrom(Replica& draining) {
  if (!waiting_.empty()) return;  // Waiting jobs get the free room.
  std::vector<std::pair<const Placements*, Placements::Room>> others;
  for (const Replica* replica : replicas_) {
    if (!replica->accepts() || replica->on_trial()) continue;
    others.emplace_back(&replica->placements(), replica->placements().room());
  }
  std::vector<Job*> moved;
  for (const auto& placement : draining.placements().all()) {
    Job& job = placement->job();
    for (auto& [there, room] : others) {
      const int pages = there->PagesToPlace(job);
      if (room.jobs < 1 || room.pages < pages || !there->Fits(job).ok()) {
        continue;
      }
      --room.jobs;
      room.pages -= pages + 1;
      moved.push_back(&job);
      break;
    }
  }
  for (Job* job : moved) draining.Displace(*job, Displacement::kMoved);
}

bool ServedModel::MayTry(const Replica& replica, const Job& job) const {
  if (!replica.on_trial()) return true;
  const auto trusted = [&job](const Replica* other) {
    return other->CanBeTrustedWith(job);
  };
  return replica.num_running() == 0 &&
         (job.losses == 0 ||
          std::none_of(replicas_.begin(), replicas_.end(), trusted));
}

absl::StatusOr<Replica*> ServedModel::PlaceFor(const Job& job,
                                               const std::string& lost_on,
                                               TimePoint now) {
  const bool kills = job.losses >= Job::kSuspectLosses;
  if (kills) BOLE_RETURN_IF_ERROR(CheckOtherThan(lost_on));
  std::vector<Replica*> replicas;
  std::optional<absl::Status> never;
  bool any_fits = false;
  bool any_free = false;
  for (Replica* replica : replicas_) {
    if (!replica->accepts()) continue;
    if (kills && replica->name() == lost_on) continue;
    if (absl::Status fits = replica->placements().Fits(job); !fits.ok()) {
      if (!never) never = std::move(fits);
      continue;
    }
    any_fits = true;
    const bool has_room =
        replica->placements().HasRoomFor(job) && MayTry(*replica, job);
    any_free = any_free || (has_room && replica->free());
    if (has_room) replicas.push_back(replica);
  }
  if (!any_fits && never) return *std::move(never);
  if (!any_free) return nullptr;
  std::vector<RouteOption> options;
  options.reserve(replicas.size());
  for (const Replica* replica : replicas) {
    options.push_back(replica->OptionFor(job, now));
  }
  const size_t best = *Route(options);
  if (replicas[best]->free()) return replicas[best];
  const std::chrono::duration<double> left(options[best].seconds_until_free);
  // Rounded up, so that the round counts as late at that time.
  look_again_ = now + std::chrono::microseconds(1) +
                std::chrono::duration_cast<TimePoint::duration>(left);
  return nullptr;
}

int ServedModel::CachedElsewhere(const Job& job, const Replica& replica) const {
  int most = 0;
  for (const Replica* other : replicas_) {
    if (other == &replica || !other->connected()) continue;
    most = std::max(most, other->placements().Look(job).position);
  }
  return most;
}

void ServedModel::CloseEmpty() {
  if (!waiting_.empty()) return;
  for (Replica* replica : replicas_) {
    if (replica->free()) replica->CloseIfEmpty();
  }
}

Job* ServedModel::PoorestThatWaits() const {
  Job* poorest = nullptr;
  int64_t least = 0;
  for (Job* job : waiting_.Fronts()) {
    const int64_t holds = held_.Of(job->request().tenant);
    if (poorest != nullptr && holds >= least) continue;
    poorest = job;
    least = holds;
  }
  return poorest;
}

std::optional<ServedModel::Preemption> ServedModel::FindPreemption() const {
  Job* const job = PoorestThatWaits();
  if (job == nullptr || job->is_suspect()) return std::nullopt;
  std::optional<Preemption> best;
  for (Replica* replica : replicas_) {
    if (!replica->CanBeTrustedWith(*job)) continue;
    if (replica->placements().HasRoomFor(*job)) return std::nullopt;
    if (!replica->free()) continue;
    std::vector<Job*> victims = FindVictims(*job, held_, replica->placements());
    if (victims.empty() ||
        waiting_.Lead(*job, *victims[0]) > kMaxPreemptingLead ||
        (best && best->victims.size() <= victims.size())) {
      continue;
    }
    best = {.job = job, .replica = replica, .victims = std::move(victims)};
  }
  return best;
}

void ServedModel::StartRounds(TimePoint now) {
  for (Replica* replica : replicas_) {
    if (replica->free()) replica->StartRound(!waiting_.empty(), now);
  }
}

int ServedModel::num_running() const {
  int running = 0;
  for (const Replica* replica : replicas_) running += replica->num_running();
  return running;
}

bool ServedModel::IsAnyConnected() const {
  return std::any_of(
      replicas_.begin(), replicas_.end(),
      [](const Replica* replica) { return replica->connected(); });
}

absl::Status ServedModel::CheckOtherThan(const std::string& lost_on) const {
  for (const Replica* replica : replicas_) {
    if (replica->name() == lost_on) continue;
    if (replica->connected() && !replica->draining()) return absl::OkStatus();
  }
  return Failed(
      FailureReason::kWorkersLost,
      absl::StrCat("workers were lost under this request, the last one ",
                   lost_on, ", and no other worker is there to run it alone"));
}

std::optional<ServedModel::Loss> ServedModel::loss() const {
  if (IsAnyConnected()) return std::nullopt;
  Loss last = last_loss_;
  for (const Replica* replica : replicas_) {
    if (replica->lost_at() < last.at) continue;
    last = {.at = replica->lost_at(), .why = replica->last_error()};
  }
  return last;
}

bool ServedModel::IsStalled() const {
  if (waiting_.empty()) return false;
  bool accepts = false;
  for (const Replica* replica : replicas_) {
    if (replica->connected() && !replica->free()) return false;
    accepts = accepts || replica->accepts();
  }
  return accepts;
}

}  // namespace bole
