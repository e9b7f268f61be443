// A checkpoint, ready to run.
#ifndef BOLE_WORKER_SERVICE_LOADED_MODEL_H_
#define BOLE_WORKER_SERVICE_LOADED_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
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
  ModelConfig config;
  GenerationConfig generation;
  std::vector<int32_t> stop_tokens;      // The model's own.
  std::unique_ptr<Tokenizer> tokenizer;  // Null without a tokenizer.json.
  std::unique_ptr<Weights> weights;
  // All that a synthetic model writes, ascending; empty for a checkpoint.
  std::vector<int32_t> known_tokens;

  // Ids that may be drawn: all of the vocabulary without a tokenizer.
  int num_valid_tokens() const {
    return tokenizer ? std::min(tokenizer->num_ids(), config.vocab_size)
                     : config.vocab_size;
  }
};

// Reads the checkpoint in the folder `model` into the backend, which must
// outlive the result; or computes a synthetic one, if `model` is the name of
// such (model/synthetic_spec.h). Errors name the file and what is wrong with
// it.
absl::StatusOr<LoadedModel> LoadModel(const std::string& model,
                                      Backend& backend);

// For command lines: why LoadModel() cannot be asked for `model`, or nothing.
// INVALID_ARGUMENT: neither a folder nor a synthetic model's name.
absl::Status CheckModelName(const std::string& model);

// What people call it: the folder's name, whatever the path to it looks like,
// or a synthetic model's name.
std::string ModelName(const std::string& model);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOADED_MODEL_H_
