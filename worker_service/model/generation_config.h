// How a checkpoint wants to be sampled, from its generation_config.json.
#ifndef BOLE_WORKER_SERVICE_MODEL_GENERATION_CONFIG_H_
#define BOLE_WORKER_SERVICE_MODEL_GENERATION_CONFIG_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/sampling_params.h"
#include "worker_service/model/model_config.h"

namespace bole {

// Defaults for requests that leave a choice open. The values here are those of
// the published checkpoints, for a field or a file that is missing.
struct GenerationConfig {
  std::vector<int> eos_token_ids;  // As in the file: >= 0.
  bool do_sample = true;           // False: greedy, whatever the rest says.
  double temperature = 1;          // >= 0
  int top_k = 20;                  // 0: no limit.
  double top_p = 0.95;             // In (0, 1].
  double min_p = 0;                // In [0, 1].
  double repetition_penalty = 1;   // In (0, kMaxRepetitionPenalty].

  friend bool operator==(const GenerationConfig&,
                         const GenerationConfig&) = default;
};

// From the text of a generation_config.json; other fields are ignored.
// INVALID_ARGUMENT, naming the field, its value and what is allowed: a request
// that takes every default passes Validate() of common/sampling_params.h.
absl::StatusOr<GenerationConfig> ParseGenerationConfig(std::string_view text);

// From `directory`/generation_config.json; nothing if there is no such file.
// Other errors start with its path.
absl::StatusOr<std::optional<GenerationConfig>> LoadGenerationConfig(
    const std::string& directory);

// How a request is drawn that leaves every choice open.
SamplingParams SamplingDefaults(const GenerationConfig& config);

// The same in words: "temperature 1, top_k 20, top_p 0.95, min_p 0,
// repetition_penalty 1".
std::string DescribeDefaults(const GenerationConfig& config);

// The stop tokens of both files, ascending, each once. May be empty; see
// CheckpointTokens for the third place that names one. INVALID_ARGUMENT: an id
// is not in the model's vocabulary.
absl::StatusOr<std::vector<int>> StopIds(const ModelConfig& model,
                                         const GenerationConfig& generation);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_GENERATION_CONFIG_H_
