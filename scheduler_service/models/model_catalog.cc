#include "scheduler_service/models/model_catalog.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/field_error.h"
#include "common/status_macros.h"

namespace bole {
namespace {

struct Spec {
  std::string name;
  std::string directory;
};

ModelId IdAt(size_t i) { return ModelId(static_cast<int32_t>(i)); }

absl::StatusOr<Spec> ParseSpec(const std::string& text) {
  // Names of synthetic models contain a '=' themselves.
  const size_t equals = text.rfind('=');
  std::error_code no_folder;
  Spec spec;
  if (equals != std::string::npos &&
      !std::filesystem::is_directory(text, no_folder)) {
    spec = {.name = text.substr(0, equals),
            .directory = text.substr(equals + 1)};
  } else {
    spec.directory = text;
    std::error_code error;
    spec.name =
        std::filesystem::weakly_canonical(text, error).filename().string();
  }
  if (spec.name.empty() ||
      !std::all_of(spec.name.begin(), spec.name.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model ", text,
                     ": the name is empty or has a blank; say NAME=DIRECTORY"));
  }
  return spec;
}

// Checks that two digests can belong to the same file.
absl::Status CheckSame(const char* file, const std::string& workers,
                       const std::string& served) {
  if (workers.empty() || served.empty() || workers == served) {
    return absl::OkStatus();
  }
  return absl::AbortedError(
      absl::StrCat("the worker's ", file, " has the SHA-256 ", workers,
                   ", that of the served model ", served));
}

absl::Status CheckServes(const WorkerDescription& worker,
                         const CatalogModel& model, bool allow_synthetic) {
  if (worker.synthetic) {
    if (allow_synthetic) return absl::OkStatus();
    return absl::AbortedError(
        absl::StrCat("the worker's model \"", worker.model,
                     "\" is synthetic: its weights are made up; "
                     "--allow-synthetic lets it serve"));
  }
  const ModelFingerprint& its = worker.fingerprint;
  const ModelFingerprint& served = model.fingerprint;
  BOLE_RETURN_IF_ERROR(CheckSame("config.json", its.config, served.config));
  BOLE_RETURN_IF_ERROR(
      CheckSame("tokenizer.json", its.tokenizer, served.tokenizer));
  return CheckSame("index of weights", its.weights, served.weights);
}

}  // namespace

ModelCatalog::ModelCatalog(std::vector<CatalogModel> models,
                           bool allow_synthetic)
    : models_(std::move(models)), allow_synthetic_(allow_synthetic) {
  BOLE_CHECK(!models_.empty());
}

absl::StatusOr<ModelCatalog> ModelCatalog::Load(
    std::span<const std::string> specs, bool allow_synthetic) {
  std::vector<CatalogModel> models;
  for (const std::string& text : specs) {
    BOLE_ASSIGN_OR_RETURN(const Spec spec, ParseSpec(text));
    for (const CatalogModel& other : models) {
      if (other.name != spec.name) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--model ", text, ": the name ", spec.name,
                       " is there twice; say NAME=DIRECTORY"));
    }
    BOLE_ASSIGN_OR_RETURN(ModelText loaded, LoadModelText(spec.directory));
    BOLE_ASSIGN_OR_RETURN(ModelFingerprint fingerprint,
                          FingerprintOf(spec.directory));
    models.push_back({.name = spec.name,
                      .text = std::move(loaded),
                      .fingerprint = std::move(fingerprint)});
  }
  return ModelCatalog(std::move(models), allow_synthetic);
}

std::string ModelCatalog::Names() const {
  return absl::StrJoin(models_, ", ",
                       [](std::string* out, const CatalogModel& model) {
                         absl::StrAppend(out, "\"", model.name, "\"");
                       });
}

absl::StatusOr<ModelId> ModelCatalog::Find(std::string_view name) const {
  if (name.empty() && models_.size() == 1) return ModelId(0);
  if (name.empty()) {
    return AboutField(
        "model", absl::InvalidArgumentError(absl::StrCat(
                     "model is empty, but several are served: ", Names())));
  }
  for (size_t i = 0; i < models_.size(); ++i) {
    if (models_[i].name == name) return IdAt(i);
  }
  return AboutField(
      "model", absl::NotFoundError(absl::StrCat(
                   "model is \"", std::string(name), "\"; served: ", Names())));
}

absl::StatusOr<ModelId> ModelCatalog::ModelOf(
    const WorkerDescription& worker) const {
  for (size_t i = 0; i < models_.size(); ++i) {
    if (models_[i].name != worker.model) continue;
    BOLE_RETURN_IF_ERROR(CheckServes(worker, models_[i], allow_synthetic_));
    return IdAt(i);
  }
  return absl::AbortedError(absl::StrCat(
      "the worker has the model \"", worker.model, "\"; served: ", Names()));
}

}  // namespace bole
