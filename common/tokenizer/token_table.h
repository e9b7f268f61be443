// The tokens by id and by bytes.
#ifndef BOLE_COMMON_TOKENIZER_TOKEN_TABLE_H_
#define BOLE_COMMON_TOKENIZER_TOKEN_TABLE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/tokenizer/tokenizer_json.h"

namespace bole {

// Every token's bytes. Immutable, so safe to share between threads.
class TokenTable {
 public:
  explicit TokenTable(const TokenizerSpec& spec);

  // The bytes of token `id`; empty if there is none, whatever `id` is. An added
  // token's are its content. A vocabulary entry with a character outside the
  // byte map's alphabet stands for no bytes in an encoding; when decoded it has
  // those of its text.
  std::string_view Bytes(int32_t id) const;

  bool IsSpecial(int32_t id) const;

  // The token with these bytes; an added token before one of the vocabulary.
  std::optional<int32_t> Find(std::string_view bytes) const;

  // The vocabulary's token with these bytes.
  std::optional<int32_t> FindInVocab(std::string_view bytes) const;

  // The vocabulary's token of each single byte.
  std::array<std::optional<int32_t>, 256> ByteIds() const;

  // The largest id plus one.
  int num_ids() const { return static_cast<int>(bytes_.size()); }

 private:
  using IdOfBytes = absl::flat_hash_map<std::string, int32_t>;

  std::vector<std::string> bytes_;  // [num_ids]; empty without a token.
  std::vector<bool> is_special_;    // [num_ids]
  IdOfBytes vocab_;
  IdOfBytes added_;
};

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_TOKEN_TABLE_H_
