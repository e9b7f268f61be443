// The models that are served, by name and by number.
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
  std::string name;  // What clients ask for, and what its workers describe.
  ModelText text;
  ModelFingerprint fingerprint = {};  // It is that of the folder's files.
};

// Immutable; every thread may use it.
class ModelCatalog {
 public:
  // REQUIRES: at least one model; no two have the same name.
  explicit ModelCatalog(std::vector<CatalogModel> models,
                        bool allow_synthetic = false);

  // Reads what `--model` was given: a directory, whose last part is the name,
  // or "NAME=DIRECTORY", parted at the last "=". INVALID_ARGUMENT if a name is
  // there twice, is empty, or has a character that is not printable; errors of
  // files name the file.
  static absl::StatusOr<ModelCatalog> Load(std::span<const std::string> specs,
                                           bool allow_synthetic = false);

  int size() const { return static_cast<int>(models_.size()); }
  const CatalogModel& at(ModelId id) const { return models_.at(id.value()); }

  // The model that a client asks for; an empty name is the only model's. Of
  // several models one has to be named: INVALID_ARGUMENT. NOT_FOUND names those
  // that are there. Both are about the field "model".
  absl::StatusOr<ModelId> Find(std::string_view name) const;

  // The model whose worker is described so: it has its name, and each file of
  // the fingerprint that both sides have is the same. A synthetic worker, whose
  // weights are made up, needs the name alone, and that they are allowed.
  // ABORTED, which makes a worker's client stay away for a while, says what it
  // has and what is served.
  absl::StatusOr<ModelId> ModelOf(const WorkerDescription& worker) const;

 private:
  std::string Names() const;

  std::vector<CatalogModel> models_;
  bool allow_synthetic_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_MODELS_MODEL_CATALOG_H_
