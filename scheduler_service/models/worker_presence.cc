#include "scheduler_service/models/worker_presence.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"

namespace bole {

WorkerPresence::WorkerPresence(const ModelCatalog& catalog)
    : catalog_(catalog), models_(catalog.size()) {}

void WorkerPresence::Note(const WorkerEvent& event) {
  MutexLock lock(mutex_);
  if (const auto* connected = std::get_if<WorkerConnected>(&event.news)) {
    Connect(event.worker, connected->description);
  } else if (std::holds_alternative<WorkerDraining>(event.news)) {
    for (OfModel& model : models_) {
      for (Worker& worker : model.connected) {
        if (worker.id == event.worker) worker.draining = true;
      }
    }
  } else if (const auto* lost = std::get_if<WorkerLost>(&event.news)) {
    Remove(event.worker);
    last_error_ =
        lost->why.ToString(absl::StatusToStringMode::kWithNoExtraData);
  }
}

void WorkerPresence::Connect(WorkerId id,
                             const WorkerDescription& description) {
  Remove(id);
  const absl::StatusOr<ModelId> model = catalog_.ModelOf(description);
  if (!model.ok()) {
    last_error_ = model.status().ToString();
    return;
  }
  OfModel& of = models_.at(model->value());
  of.last = std::make_shared<const WorkerDescription>(description);
  of.connected.push_back({.id = id, .description = of.last});
}

void WorkerPresence::Note(const absl::Status& why) {
  MutexLock lock(mutex_);
  last_error_ = why.ToString();
}

void WorkerPresence::Remove(WorkerId id) {
  for (OfModel& model : models_) {
    std::erase_if(model.connected,
                  [id](const Worker& worker) { return worker.id == id; });
  }
}

WorkerPresence::Snapshot WorkerPresence::Get(ModelId model) const {
  MutexLock lock(mutex_);
  const OfModel& of = models_.at(model.value());
  Snapshot snapshot;
  snapshot.connected = !of.connected.empty();
  const auto ready =
      std::find_if(of.connected.begin(), of.connected.end(),
                   [](const Worker& worker) { return !worker.draining; });
  snapshot.draining = snapshot.connected && ready == of.connected.end();
  snapshot.description =
      ready != of.connected.end() ? ready->description : of.last;
  if (!snapshot.ready()) snapshot.last_error = last_error_;
  return snapshot;
}

bool WorkerPresence::IsAnyReady() const {
  for (int i = 0; i < catalog_.size(); ++i) {
    if (Get(ModelId(i)).ready()) return true;
  }
  return false;
}

}  // namespace bole
