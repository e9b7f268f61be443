// The sampling parameters that a checkpoint recommends, from its
// generation_config.json.
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

// Defaults for parameters that a request does not set. The values here are
// those of the published checkpoints; they apply if a field or the file is
// missing.
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

// Parses the text of a generation_config.json; other fields are ignored.
// INVALID_ARGUMENT, naming the field, its value and what is allowed, so that a
// request with all defaults passes Validate() of common/sampling_params.h.
absl::StatusOr<GenerationConfig> ParseGenerationConfig(std::string_view text);

// Reads `directory`/generation_config.json; nothing if there is no such file.
// Other errors start with its path.
absl::StatusOr<std::optional<GenerationConfig>> LoadGenerationConfig(
    const std::string& directory);

// The sampling parameters of a request that sets none.
SamplingParams SamplingDefaults(const GenerationConfig& config);

// The defaults in words: "temperature 1, top_k 20, top_p 0.95, min_p 0,
// repetition_penalty 1".
std::string DescribeDefaults(const GenerationConfig& config);

// The stop tokens of both files, ascending, each once. May be empty; see
// CheckpointTokens for the third place that names one. INVALID_ARGUMENT: an id
// is not in the model's vocabulary.
absl::StatusOr<std::vector<int>> StopIds(const ModelConfig& model,
                                         const GenerationConfig& generation);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_GENERATION_CONFIG_H_
