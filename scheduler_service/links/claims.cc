#include "scheduler_service/links/claims.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bole {
namespace {

std::string Explain(const ModelShare& of) {
  return absl::StrCat("its share of model \"", of.model, "\" is ", of.share,
                      " of ", of.workers, " workers as scheduler ",
                      of.place->rank + 1, " of ", of.place->of, ", and it has ",
                      of.held);
}

}  // namespace

void Claims::Add(WorkerId worker, const std::string& address) {
  const uint64_t order =
      std::hash<std::string>()(absl::StrCat(instance_, " ", address));
  workers_.try_emplace(worker, Worker{.id = worker, .order = order})
      .first->second.in_pool = true;
}

void Claims::Remove(WorkerId worker) { workers_.at(worker).in_pool = false; }

void Claims::Forget(WorkerId worker) { workers_.erase(worker); }

void Claims::Described(WorkerId id, const std::string& model, Time now) {
  Worker& worker = workers_.at(id);
  worker.model = model;
  worker.answers = true;
  worker.seen = now;
}

void Claims::Unreachable(WorkerId worker) {
  workers_.at(worker).answers = false;
}

void Claims::Connected(WorkerId id, const std::string& model, Time now) {
  Described(id, model, now);
  Worker& worker = workers_.at(id);
  worker.state = State::kHeld;
  worker.since = now;
  worker.wanted = false;
  ++shares_.num_claimed;
}

void Claims::Lost(WorkerId id, Loss how, Time now) {
  Worker& worker = workers_.at(id);
  const bool obeyed = worker.state != State::kAsked;
  if (obeyed) worker.seen = now;
  if (worker.state == State::kGivingBack ||
      (leaving_ && how == Loss::kClosed)) {
    ++shares_.num_given_back;
  } else if (leaving_ && obeyed) {
    worker.wanted = true;
  }
  if (!obeyed) worker.refused = now;
  worker.not_before = now;
  if (!obeyed) worker.not_before += options_.retry;
  if (how == Loss::kSentAway) worker.not_before = now + options_.sent_away;
  worker.answers = false;  // Until it is looked at again.
  worker.state = State::kWatched;
  worker.since = now;
}

std::vector<Claims::Order> Claims::Decide(const PlaceOf& place_of, Time now) {
  std::vector<Order> orders;
  shares_.models.clear();
  std::map<std::string, Workers> models;
  for (auto& [id, worker] : workers_) {
    if (worker.in_pool && !worker.model.empty()) {
      models[worker.model].push_back(&worker);
    }
  }
  for (auto& [model, workers] : models) {
    DecideModel(model, workers, place_of(model), now, orders);
  }
  if (leaving_) AskForWanted(now, orders);
  return orders;
}

void Claims::DecideModel(const std::string& model, Workers& workers,
                         const std::optional<Place>& place, Time now,
                         std::vector<Order>& orders) {
  ModelShare of{.model = model, .place = place};
  int asked = 0;
  for (const Worker* worker : workers) {
    const bool heard = worker->state == State::kHeld ||
                       worker->state == State::kGivingBack ||
                       now - worker->seen < options_.forget;
    of.workers += heard;
    of.held += worker->state == State::kHeld;
    of.giving_back += worker->state == State::kGivingBack;
    asked += worker->state == State::kAsked &&
             now - worker->since < options_.slow_answer;
  }
  if (place) of.share = ShareOf(of.workers, *place);
  shares_.models.push_back(of);
  if (!place || leaving_) return;
  Settled& settled = settled_[model];
  if (of.share != settled.share) settled = {.share = of.share, .since = now};
  if (of.held + asked < of.share) {
    Take(of.share - of.held - asked, Explain(of), workers, now, orders);
  } else if (of.held > of.share && now - settled.since >= options_.settle) {
    GiveBack(of.held - of.share, Explain(of), workers, now, orders);
  }
}

void Claims::Take(int missing, const std::string& why, Workers& workers,
                  Time now, std::vector<Order>& orders) {
  for (Worker* worker : workers) {
    if (missing == 0) return;
    if (worker->state != State::kGivingBack) continue;
    worker->state = State::kHeld;
    orders.push_back(
        {.kind = Order::Kind::kKeep, .worker = worker->id, .why = why});
    --missing;
  }
  std::sort(workers.begin(), workers.end(), [](const auto* a, const auto* b) {
    return std::tie(a->refused, a->order) < std::tie(b->refused, b->order);
  });
  for (Worker* worker : workers) {
    if (missing == 0) return;
    if (!MayAsk(*worker, now)) continue;
    orders.push_back(Ask(*worker, why, now));
    --missing;
  }
}

void Claims::GiveBack(int surplus, const std::string& why, Workers& workers,
                      Time now, std::vector<Order>& orders) {
  std::sort(workers.begin(), workers.end(), [](const auto* a, const auto* b) {
    return std::tie(b->since, b->order) < std::tie(a->since, a->order);
  });
  for (Worker* worker : workers) {
    if (surplus == 0) return;
    if (worker->state != State::kHeld) continue;
    worker->state = State::kGivingBack;
    worker->since = now;
    orders.push_back(
        {.kind = Order::Kind::kGiveBack, .worker = worker->id, .why = why});
    --surplus;
  }
}

void Claims::AskForWanted(Time now, std::vector<Order>& orders) {
  for (auto& [id, worker] : workers_) {
    if (!worker.wanted || !worker.in_pool || !MayAsk(worker, now)) continue;
    orders.push_back(Ask(worker, "it was lost while requests end", now));
  }
}

bool Claims::MayAsk(const Worker& worker, Time now) const {
  return worker.state == State::kWatched && worker.answers &&
         !worker.model.empty() && now >= worker.not_before;
}

Claims::Order Claims::Ask(Worker& worker, const std::string& why, Time now) {
  worker.state = State::kAsked;
  worker.since = now;
  return {.kind = Order::Kind::kAsk, .worker = worker.id, .why = why};
}

}  // namespace bole
