// The parts of a tokenizer.json that name tokens: `model` and `added_tokens`.
#ifndef BOLE_COMMON_TOKENIZER_VOCABULARY_JSON_H_
#define BOLE_COMMON_TOKENIZER_VOCABULARY_JSON_H_

#include "absl/status/status.h"
#include "common/tokenizer/json_field.h"
#include "common/tokenizer/tokenizer_json.h"

namespace bole {

// Reads `root`, the object of the whole file, into vocab, merges, ignore_merges
// and added_tokens of `spec`. Errors as ParseTokenizerJson.
absl::Status ReadVocabulary(const JsonField& root, TokenizerSpec* spec);

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_VOCABULARY_JSON_H_
