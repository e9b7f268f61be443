#include "worker_service/model/generation_config.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker_service/model/json_fields.h"
#include "worker_service/model/mapped_file.h"

namespace bole {
namespace {

constexpr int kMaxDepth = 16;
constexpr IntRange kTokenId = {0, INT32_MAX};

}  // namespace

absl::StatusOr<GenerationConfig> ParseGenerationConfig(std::string_view text) {
  BOLE_ASSIGN_OR_RETURN(const nlohmann::json document,
                        ParseJson(text, kMaxDepth));
  if (!document.is_object()) {
    return absl::InvalidArgumentError("is not a JSON object");
  }
  JsonFields fields(document, "");
  GenerationConfig config;
  config.eos_token_ids = fields.IntOrInts("eos_token_id", kTokenId);
  config.do_sample = fields.Bool("do_sample", config.do_sample);
  config.temperature =
      fields.Number("temperature", {0, 100}, config.temperature);
  config.top_k = fields.Int("top_k", {0, INT32_MAX}, config.top_k);
  config.top_p = fields.Number("top_p", {0, 1}, config.top_p);
  config.min_p = fields.Number("min_p", {0, 1}, config.min_p);
  config.repetition_penalty =
      fields.Number("repetition_penalty", {0, kMaxRepetitionPenalty},
                    config.repetition_penalty);
  BOLE_RETURN_IF_ERROR(fields.status());
  BOLE_RETURN_IF_ERROR(Validate(SamplingDefaults(config), /*vocabulary=*/0));
  return config;
}

SamplingParams SamplingDefaults(const GenerationConfig& config) {
  SamplingParams params;
  params.temperature =
      config.do_sample ? static_cast<float>(config.temperature) : 0.0f;
  params.top_k = config.top_k;
  params.top_p = static_cast<float>(config.top_p);
  params.min_p = static_cast<float>(config.min_p);
  params.repetition_penalty = static_cast<float>(config.repetition_penalty);
  return params;
}

std::string DescribeDefaults(const GenerationConfig& config) {
  const SamplingParams params = SamplingDefaults(config);
  return absl::StrCat("temperature ", params.temperature, ", top_k ",
                      params.top_k, ", top_p ", params.top_p, ", min_p ",
                      params.min_p, ", repetition_penalty ",
                      params.repetition_penalty);
}

absl::StatusOr<std::optional<GenerationConfig>> LoadGenerationConfig(
    const std::string& directory) {
  const std::string path = directory + "/generation_config.json";
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (absl::IsNotFound(file.status())) return std::nullopt;
  BOLE_RETURN_IF_ERROR(file.status());
  absl::StatusOr<GenerationConfig> config = ParseGenerationConfig(file->text());
  if (!config.ok()) return Annotate(config.status(), path);
  return config;
}

absl::StatusOr<std::vector<int>> StopIds(const ModelConfig& model,
                                         const GenerationConfig& generation) {
  std::vector<int> ids = model.eos_token_ids;
  for (const int id : generation.eos_token_ids) {
    if (id >= model.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("generation_config.json: eos_token_id: ", id,
                       ", expected less than vocab_size, ", model.vocab_size));
    }
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace bole
