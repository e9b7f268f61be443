// A checkpoint, ready to run.
#ifndef BOLE_WORKER_SERVICE_LOADED_MODEL_H_
#define BOLE_WORKER_SERVICE_LOADED_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"
#include "kernels/backend.h"
#include "worker_service/model/generation_config.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/weights.h"

namespace bole {

struct LoadedModel {
  ModelConfig config;  // What the backend's rank has of the model.
  GenerationConfig generation;
  // Those of all files, ascending (model/checkpoint_tokens.h). A checkpoint
  // with a chat template has at least one.
  std::vector<int32_t> stop_tokens;
  std::unique_ptr<Tokenizer> tokenizer;  // Null without a tokenizer.json.
  std::optional<int> num_ids;            // As CheckpointTokens.
  std::unique_ptr<Weights> weights;
  // For a synthetic model, what it has instead of a kDraftTokensFile, and a
  // sentence on what its text is like. Empty for a checkpoint.
  std::vector<int32_t> listed_tokens;
  std::string text;

  // What a user should know of the checkpoint, a sentence each, to be shown at
  // the start: defaults that hold because a file is missing, and what the files
  // disagree about.
  std::vector<std::string> notes;

  // Only ids below it may be drawn; further rows of the vocabulary are padding.
  // 0 if no file tells how many there are: an engine is refused then.
  int num_valid_tokens() const { return num_ids.value_or(0); }
};

// Reads the part of the checkpoint in the folder `model` that is the backend's
// rank's into the backend, which must outlive the result; or computes that of a
// synthetic one, if `model` is the name of such (model/synthetic_spec.h).
// Errors name the file and what is wrong with it, and are those of ShardOf().
// INVALID_ARGUMENT also for a checkpoint that has a chat template and no stop
// token: no answer of it would ever end. `on_progress` is that of
// LoadWeights(); a synthetic model has none.
absl::StatusOr<LoadedModel> LoadModel(
    const std::string& model, Backend& backend,
    const OnLoadProgress& on_progress = nullptr);

// Writes the notes to standard error, each after "PROGRAM: ".
void PrintNotes(const char* program, const LoadedModel& model);

// For command lines: why LoadModel() cannot be asked for `model`, or nothing.
// INVALID_ARGUMENT: neither a folder nor a synthetic model's name.
absl::Status CheckModelName(const std::string& model);

// What people call it: the folder's name, whatever the path to it looks like,
// or a synthetic model's name.
std::string ModelName(const std::string& model);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOADED_MODEL_H_
