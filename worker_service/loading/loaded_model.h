// A checkpoint, ready to run.
#ifndef BOLE_WORKER_SERVICE_LOADING_LOADED_MODEL_H_
#define BOLE_WORKER_SERVICE_LOADING_LOADED_MODEL_H_

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
  ModelConfig config;  // Describes the rank's part of the model.
  GenerationConfig generation;
  // The stop tokens of all files, ascending (model/checkpoint_tokens.h). A
  // checkpoint with a chat template has at least one.
  std::vector<int32_t> stop_tokens;
  std::unique_ptr<Tokenizer> tokenizer;  // Null without a tokenizer.json.
  std::optional<int> num_ids;            // As CheckpointTokens.
  std::unique_ptr<Weights> weights;
  // For a synthetic model, the token list that it has instead of a
  // kDraftTokensFile, and a sentence that describes its text. Empty for a
  // checkpoint.
  std::vector<int32_t> listed_tokens;
  std::string text;

  // Sentences to show at the start that tell a user about the checkpoint: which
  // defaults apply because a file is missing, and where files contradict each
  // other.
  std::vector<std::string> notes;

  // Only ids below it may be drawn; further rows of the vocabulary are padding.
  // 0 if no file tells how many there are: then no engine can be created.
  int num_valid_tokens() const { return num_ids.value_or(0); }
};

// Loads the checkpoint in the folder `model` into the backend, which must
// outlive the result: the part that belongs to the backend's rank. If `model`
// is the name of a synthetic model (model/synthetic_spec.h), computes that part
// of its weights instead.
// Errors name the file and what is wrong with it, or are those of ShardOf().
// INVALID_ARGUMENT also for a checkpoint that has a chat template and no stop
// token: none of its answers would ever end. `on_progress` is that of
// LoadWeights(); a synthetic model does not call it.
absl::StatusOr<LoadedModel> LoadModel(
    const std::string& model, Backend& backend,
    const OnLoadProgress& on_progress = nullptr);

// Writes the notes to standard error, each after "PROGRAM: ".
void PrintNotes(const char* program, const LoadedModel& model);

// For command lines: whether LoadModel() can take `model`.
// INVALID_ARGUMENT: neither a folder nor a synthetic model's name.
absl::Status CheckModelName(const std::string& model);

// The name that people use for the model: the folder's name, without the path
// to it, or a synthetic model's name.
std::string ModelName(const std::string& model);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOADING_LOADED_MODEL_H_
