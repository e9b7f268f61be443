// The models that requests may name.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_ASKED_MODELS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_ASKED_MODELS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/models/model_text.h"
#include "scheduler_service/models/worker_presence.h"

namespace bole {

// A model as the door sees it at one moment: its name, and its tokenizer and
// chat template, which outlive every request; and what is known of its workers.
struct AskedModel {
  ModelId id;
  const std::string& name;
  const ModelText& text;
  WorkerPresence::Snapshot workers;
};

// Finds a model by its name. Thread-safe.
class AskedModels {
 public:
  // The references must outlive this.
  AskedModels(const ModelCatalog& catalog, const WorkerPresence& presence)
      : catalog_(catalog), presence_(presence) {}

  // As ModelCatalog::Find().
  absl::StatusOr<AskedModel> Find(std::string_view name) const;
  // In the order of their ids.
  std::vector<AskedModel> All() const;

 private:
  AskedModel At(ModelId id) const;

  const ModelCatalog& catalog_;
  const WorkerPresence& presence_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_ASKED_MODELS_H_
