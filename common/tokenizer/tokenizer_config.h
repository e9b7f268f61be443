// What a checkpoint's tokenizer_config.json says of its tokens.
#ifndef BOLE_COMMON_TOKENIZER_TOKENIZER_CONFIG_H_
#define BOLE_COMMON_TOKENIZER_TOKENIZER_CONFIG_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tokenizer/added_tokens.h"

namespace bole {

// The chat template of the same file is read by ChatTemplate.
struct TokenizerConfig {
  // The text of the token that ends a turn; empty if the file names none.
  std::string eos_token;
  // Those of `added_tokens_decoder`, ascending by id. A released checkpoint
  // repeats here what its tokenizer.json says.
  std::vector<AddedToken> added_tokens;
};

// From the text of a tokenizer_config.json. `eos_token` is a string or an
// object with a `content`. Other fields are ignored.
//
// INVALID_ARGUMENT, naming the field and its value: not a JSON object, or a
// field of a wrong type or out of range.
absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(std::string_view json);

// From `directory`/tokenizer_config.json; empty if there is no such file. Other
// errors start with its path.
absl::StatusOr<TokenizerConfig> LoadTokenizerConfig(
    const std::string& directory);

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_TOKENIZER_CONFIG_H_
