// Reading of Hugging Face tokenizer.json files, hostile input assumed.
#ifndef BOLE_COMMON_TOKENIZER_TOKENIZER_JSON_H_
#define BOLE_COMMON_TOKENIZER_TOKENIZER_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tokenizer/added_tokens.h"
#include "common/tokenizer/bpe.h"

namespace bole {

// The largest file that is read, and the largest id in it plus one. Tables are
// indexed by id, so the second bounds their memory.
inline constexpr size_t kMaxTokenizerJsonBytes = 64 << 20;
inline constexpr int32_t kMaxTokenizerIds = 1 << 20;

// What a tokenizer.json says. Every id is in [0, kMaxTokenizerIds), no id has
// two different texts, and merges name ids of `vocab`.
struct TokenizerSpec {
  struct VocabEntry {
    std::string text;  // In the byte map's printable alphabet.
    int32_t id = 0;
  };
  std::vector<VocabEntry> vocab;
  std::vector<BpeMerge> merges;  // In order of rank.
  // Distinct contents. An entry that is also in `vocab` has the same id there.
  std::vector<AddedToken> added_tokens;
  std::string split_pattern;  // Empty: text is not split.
  bool normalize_nfc = false;
  bool ignore_merges = false;  // A piece that is a token is not merged.
};

// Parses the text of a tokenizer.json. `truncation` and `padding` are ignored:
// what a server does with long prompts is not the tokenizer's to decide.
//
//   INVALID_ARGUMENT  not JSON, or a field of wrong type or value; the message
//                     names the field and shows the value.
//   UNIMPLEMENTED     a normalizer, pre-tokenizer, post-processor, decoder,
//                     model or added-token option that is not supported.
//
// COST: time linear in the text, memory a small multiple of it.
absl::StatusOr<TokenizerSpec> ParseTokenizerJson(std::string_view json);

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_TOKENIZER_JSON_H_
