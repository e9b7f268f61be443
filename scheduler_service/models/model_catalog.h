// The models that are served. They are found by name or by number.
#ifndef BOLE_SCHEDULER_SERVICE_MODELS_MODEL_CATALOG_H_
#define BOLE_SCHEDULER_SERVICE_MODELS_MODEL_CATALOG_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/model_fingerprint.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_text.h"

namespace bole {

struct CatalogModel {
  std::string name;  // As in requests and in its workers' descriptions.
  ModelText text;
  // Identifies the content of the files in the model's folder.
  ModelFingerprint fingerprint = {};
};

// Immutable; every thread may use it.
class ModelCatalog {
 public:
  // REQUIRES: at least one model; no two have the same name.
  explicit ModelCatalog(std::vector<CatalogModel> models,
                        bool allow_synthetic = false);

  // Loads the models that the values of `--model` name: each is a directory,
  // whose last part is the name, or "NAME=DIRECTORY", split at the last "=".
  // INVALID_ARGUMENT if a name occurs twice, is empty, or has a character that
  // is not printable; errors of files name the file.
  static absl::StatusOr<ModelCatalog> Load(std::span<const std::string> specs,
                                           bool allow_synthetic = false);

  int size() const { return static_cast<int>(models_.size()); }
  const CatalogModel& at(ModelId id) const { return models_.at(id.value()); }

  // The model that a client requests. An empty name means the only model; if
  // there are several, it is INVALID_ARGUMENT. NOT_FOUND lists the models that
  // are served. Both errors are about the field "model".
  absl::StatusOr<ModelId> Find(std::string_view name) const;

  // The model that a worker with this description runs: the names are equal,
  // and so is each file of the fingerprint that both sides have. For a
  // synthetic worker, whose weights are made up, equal names suffice, but
  // synthetic workers must be allowed. ABORTED, which makes a worker's client
  // stay away for a while, says what the worker has and what is served.
  absl::StatusOr<ModelId> ModelOf(const WorkerDescription& worker) const;

 private:
  std::string Names() const;

  std::vector<CatalogModel> models_;
  bool allow_synthetic_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_MODELS_MODEL_CATALOG_H_
