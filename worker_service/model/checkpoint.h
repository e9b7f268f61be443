// The tensors of a checkpoint's folder, which are in one file or several.
#ifndef BOLE_WORKER_SERVICE_MODEL_CHECKPOINT_H_
#define BOLE_WORKER_SERVICE_MODEL_CHECKPOINT_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker_service/model/safetensors.h"
#include "worker_service/model/tensor_view.h"

namespace bole {

// Maps the files and owns them; every view points into them and stays valid as
// long as this object or one it was moved to lives. Immutable, so threads may
// share it. Opening reads headers only.
class Checkpoint {
 public:
  // Reads the shards that `directory`/model.safetensors.index.json names, or
  // `directory`/model.safetensors if there is no index.
  //
  // NOT_FOUND: no directory, neither file in it, or a shard is missing.
  // INVALID_ARGUMENT, starting with the file's path: errors of SafetensorsFile;
  // an index that is not one, that names a shard outside the directory, or that
  // disagrees with its shards on which tensor is where.
  static absl::StatusOr<Checkpoint> Open(const std::string& directory);

  const TensorMap& tensors() const { return tensors_; }

  std::optional<TensorView> Find(std::string_view name) const;

 private:
  Checkpoint(std::vector<SafetensorsFile> files, TensorMap tensors)
      : files_(std::move(files)), tensors_(std::move(tensors)) {}

  std::vector<SafetensorsFile> files_;
  TensorMap tensors_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_CHECKPOINT_H_
