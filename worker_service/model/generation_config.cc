#include "worker_service/model/generation_config.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
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
  BOLE_RETURN_IF_ERROR(fields.status());
  return config;
}

absl::StatusOr<GenerationConfig> LoadGenerationConfig(
    const std::string& directory) {
  const std::string path = directory + "/generation_config.json";
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (absl::IsNotFound(file.status())) return GenerationConfig{};
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
