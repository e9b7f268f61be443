// Which ids of a checkpoint are tokens, and which of them end a text.
#ifndef BOLE_WORKER_SERVICE_MODEL_CHECKPOINT_TOKENS_H_
#define BOLE_WORKER_SERVICE_MODEL_CHECKPOINT_TOKENS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"
#include "worker_service/model/generation_config.h"
#include "worker_service/model/model_config.h"

namespace bole {

struct CheckpointTokens {
  std::unique_ptr<Tokenizer> tokenizer;  // Null without a tokenizer.json.

  // Ids below it are tokens; the embedding's further rows are padding, which
  // must never be drawn. In [1, V]. Without a tokenizer.json it is one more
  // than the largest id of vocab.json, of the added_tokens_decoder in
  // tokenizer_config.json and of the stop tokens. Unset if neither of these
  // files tells where the vocabulary ends.
  std::optional<int> num_ids;

  // Ascending, each once; may be empty. The union of eos_token_id in
  // config.json and generation_config.json with the eos_token of
  // tokenizer_config.json: a chat model often names the end of a document in
  // the first and the end of a turn in the others.
  std::vector<int32_t> stop_tokens;
};

// Reads these from the files of `directory`.
//
// INVALID_ARGUMENT, naming the file and the value: a file that cannot be read
// or parsed, a stop token that is not in the model's vocabulary, or an
// eos_token that no file lists. UNIMPLEMENTED as Tokenizer::Load.
// COST: half a second for a tokenizer.json of 250,000 tokens.
absl::StatusOr<CheckpointTokens> LoadCheckpointTokens(
    const std::string& directory, const ModelConfig& config,
    const GenerationConfig& generation);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_CHECKPOINT_TOKENS_H_
