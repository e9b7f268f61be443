// A configuration that parses keeps what its header promises, and what is
// computed from it is finite. The same bytes also go to the parsers of
// generation_config.json and tokenizer_config.json.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/tokenizer/tokenizer_config.h"
#include "common/tokenizer/tokenizer_json.h"
#include "worker_service/model/generation_config.h"
#include "worker_service/model/model_config.h"
#include "worker_service/model/rope_config.h"

namespace bole {
namespace {

void CheckSizes(const ModelConfig& config) {
  BOLE_CHECK(config.hidden_size > 0 && config.vocab_size > 0);
  BOLE_CHECK(config.num_layers() > 0);
  BOLE_CHECK(config.num_linear_layers() + config.num_attention_layers() ==
             config.num_layers());
  BOLE_CHECK(config.num_attention_heads % config.num_key_value_heads == 0);
  BOLE_CHECK(config.linear_num_value_heads % config.linear_num_key_heads == 0);
  BOLE_CHECK(config.query_dim() > 0 && config.kv_dim() > 0);
  BOLE_CHECK(config.key_dim() > 0 && config.conv_dim() > 0);
  BOLE_CHECK(config.max_context() >= config.max_position_embeddings);
  BOLE_CHECK(config.moe.has_value() == (config.intermediate_size == 0));
  BOLE_CHECK(!config.moe ||
             config.moe->experts_per_token <= config.moe->num_experts);
  for (const int id : config.eos_token_ids) {
    BOLE_CHECK(id >= 0 && id < config.vocab_size);
  }
}

void CheckRope(const ModelConfig& config) {
  const std::vector<float> frequencies = InverseFrequencies(config.rope);
  BOLE_CHECK(config.rope.rotary_dim <= config.head_dim);
  BOLE_CHECK(2 * frequencies.size() ==
             static_cast<size_t>(config.rope.rotary_dim));
  for (const float frequency : frequencies) {
    BOLE_CHECK(frequency > 0 && frequency <= 1);
  }
  BOLE_CHECK(std::isfinite(RotaryScale(config.rope)));
}

}  // namespace
}  // namespace bole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<bole::GenerationConfig> generation =
      bole::ParseGenerationConfig(text);
  const absl::StatusOr<bole::ModelConfig> config = bole::ParseModelConfig(text);
  if (config.ok()) {
    bole::CheckSizes(*config);
    bole::CheckRope(*config);
  }
  const absl::StatusOr<bole::TokenizerConfig> tokenizer =
      bole::ParseTokenizerConfig(text);
  if (tokenizer.ok()) {
    for (const bole::AddedToken& token : tokenizer->added_tokens) {
      BOLE_CHECK(token.id >= 0 && token.id < bole::kMaxTokenizerIds);
    }
  }
  if (config.ok() && generation.ok()) {
    const auto stop_ids = bole::StopIds(*config, *generation);
    BOLE_CHECK(!stop_ids.ok() ||
               stop_ids->size() >= config->eos_token_ids.size());
  }
  return 0;
}
