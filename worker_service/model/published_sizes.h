// The configurations of the published Qwen3.5 models, by name.
#ifndef BOLE_WORKER_SERVICE_MODEL_PUBLISHED_SIZES_H_
#define BOLE_WORKER_SERVICE_MODEL_PUBLISHED_SIZES_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "worker_service/model/model_config.h"

namespace bole {

// The names are "0.8B", "2B", "4B", "9B", "27B", "35B-A3B", "122B-A10B",
// "397B-A17B"; and sizes of our own: "tiny" and "tiny-moe" for tests and
// machines without a GPU, and "tiny-16" and "tiny-16-moe", with 16 key heads
// and the demo model's number of tokens, for several ranks.
// The result has no stop tokens. INVALID_ARGUMENT, listing the names, for
// another name.
absl::StatusOr<ModelConfig> ConfigOfSize(std::string_view name);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_PUBLISHED_SIZES_H_
