#include "scheduler_service/worker_presence.h"

#include <variant>

namespace bole {

void WorkerPresence::Note(const WorkerEvent& event) {
  if (const auto* connected = std::get_if<WorkerConnected>(&event)) {
    Snapshot next;
    next.description =
        std::make_shared<const WorkerDescription>(connected->description);
    next.connected = true;
    MutexLock lock(mutex_);
    snapshot_ = std::move(next);
  } else if (std::holds_alternative<WorkerDraining>(event)) {
    MutexLock lock(mutex_);
    snapshot_.draining = true;
  } else if (const auto* lost = std::get_if<WorkerLost>(&event)) {
    MutexLock lock(mutex_);
    snapshot_.connected = false;
    snapshot_.last_error = lost->why.ToString();
  }
}

WorkerPresence::Snapshot WorkerPresence::Get() const {
  MutexLock lock(mutex_);
  return snapshot_;
}

}  // namespace bole
