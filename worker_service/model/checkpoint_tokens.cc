#include "worker_service/model/checkpoint_tokens.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "common/tokenizer/json_field.h"
#include "common/tokenizer/token_table.h"
#include "common/tokenizer/tokenizer_config.h"
#include "common/tokenizer/tokenizer_json.h"
#include "nlohmann/json.hpp"
#include "worker_service/model/mapped_file.h"

namespace bole {
namespace {

using Vocabulary = std::vector<TokenizerSpec::VocabEntry>;

// Parses {"text": id, ...}.
absl::StatusOr<Vocabulary> ParseVocabulary(std::string_view text) {
  BOLE_ASSIGN_OR_RETURN(const nlohmann::json document,
                        ParseJson(text, /*max_depth=*/1));
  if (!document.is_object()) {
    return absl::InvalidArgumentError("is not a JSON object");
  }
  Vocabulary vocabulary;
  for (const auto& [token, value] : document.items()) {
    const JsonField field(value, absl::StrCat("[\"", token, "\"]"));
    BOLE_ASSIGN_OR_RETURN(const int32_t id, field.Index(kMaxTokenizerIds));
    vocabulary.push_back({.text = token, .id = id});
  }
  return vocabulary;
}

// The vocabulary of vocab.json; empty if there is no such file.
absl::StatusOr<Vocabulary> LoadVocabulary(const std::string& directory) {
  const std::string path = directory + "/vocab.json";
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (absl::IsNotFound(file.status())) return Vocabulary{};
  BOLE_RETURN_IF_ERROR(file.status());
  absl::StatusOr<Vocabulary> vocabulary = ParseVocabulary(file->text());
  if (!vocabulary.ok()) return Annotate(vocabulary.status(), path);
  return vocabulary;
}

// For a checkpoint without a tokenizer.json: the tokens that the other files
// list.
absl::StatusOr<TokenTable> ListedTokens(const std::string& directory,
                                        const TokenizerConfig& config) {
  TokenizerSpec spec;
  BOLE_ASSIGN_OR_RETURN(spec.vocab, LoadVocabulary(directory));
  // Added tokens normally come after the vocabulary, which contains at least
  // the 256 bytes. If they begin earlier, they do not tell where the vocabulary
  // ends.
  constexpr int32_t kNumBytes = 256;
  const bool come_last = !config.added_tokens.empty() &&
                         config.added_tokens.front().id >= kNumBytes;
  if (come_last || !spec.vocab.empty()) spec.added_tokens = config.added_tokens;
  return TokenTable(spec);
}

// The id of tokenizer_config.json's eos_token. `found` is its id among the
// known tokens, if it is one.
absl::StatusOr<int32_t> EosId(const std::string& eos,
                              std::optional<int32_t> found,
                              const ModelConfig& config) {
  if (found && *found < config.vocab_size) return *found;
  return absl::InvalidArgumentError(absl::StrCat(
      "tokenizer_config.json: eos_token: \"", eos, "\" ",
      found ? absl::StrCat("is token ", *found, ", expected less than ",
                           "vocab_size, ", config.vocab_size)
            : "is not a token of tokenizer.json, vocab.json or "
              "added_tokens_decoder"));
}

}  // namespace

absl::StatusOr<CheckpointTokens> LoadCheckpointTokens(
    const std::string& directory, const ModelConfig& config,
    const GenerationConfig& generation) {
  CheckpointTokens tokens;
  BOLE_ASSIGN_OR_RETURN(tokens.stop_tokens, StopIds(config, generation));
  BOLE_ASSIGN_OR_RETURN(const TokenizerConfig tokenizer_config,
                        LoadTokenizerConfig(directory));
  const std::string& eos = tokenizer_config.eos_token;

  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::Load(directory + "/tokenizer.json");
  int num_ids = 0;
  std::optional<int32_t> eos_id;
  if (tokenizer.ok()) {
    tokens.tokenizer = *std::move(tokenizer);
    num_ids = tokens.tokenizer->num_ids();
    eos_id = tokens.tokenizer->Find(eos);
  } else if (absl::IsNotFound(tokenizer.status())) {
    BOLE_ASSIGN_OR_RETURN(const TokenTable listed,
                          ListedTokens(directory, tokenizer_config));
    num_ids = listed.num_ids();
    eos_id = listed.Find(eos);
    // A token that a file names as a stop token is valid, even if it lies after
    // the end of vocab.json.
    if (num_ids > 0 && !tokens.stop_tokens.empty()) {
      num_ids = std::max(num_ids, tokens.stop_tokens.back() + 1);
    }
  } else {
    return tokenizer.status();
  }
  if (num_ids == 0) return tokens;
  tokens.num_ids = std::min(num_ids, config.vocab_size);
  if (eos.empty()) return tokens;
  BOLE_ASSIGN_OR_RETURN(const int32_t stop, EosId(eos, eos_id, config));
  std::vector<int32_t>& stops = tokens.stop_tokens;
  const auto place = std::lower_bound(stops.begin(), stops.end(), stop);
  if (place == stops.end() || *place != stop) stops.insert(place, stop);
  return tokens;
}

}  // namespace bole
