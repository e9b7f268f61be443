// Text to token ids and back.
#ifndef BOLE_COMMON_TOKENIZER_TOKENIZER_H_
#define BOLE_COMMON_TOKENIZER_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tokenizer/added_tokens.h"
#include "common/tokenizer/bpe.h"
#include "common/tokenizer/split.h"
#include "common/tokenizer/token_table.h"
#include "common/tokenizer/tokenizer_json.h"

namespace bole {

// The longest text that is encoded.
inline constexpr size_t kMaxEncodeBytes = 16 << 20;

struct EncodeOptions {
  // Whether the text of a special token becomes that token. Off for text of
  // people who must not be able to write control tokens; it is then encoded as
  // any other text. Added tokens that are not special are always matched.
  bool parse_special_tokens = true;
};

// A byte-level BPE tokenizer, as a tokenizer.json describes it.
//
// Immutable once made; every const method may be called from any thread.
class Tokenizer {
 public:
  // From the file at `path`, or from its text. NOT_FOUND if there is no such
  // file; other errors as ParseTokenizerJson and SplitPattern::Compile.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const std::string& path);
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(
      std::string_view json);

  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of `text`. Nothing is added at either end. Bytes that are not UTF-8
  // are read as U+FFFD.
  //
  //   INVALID_ARGUMENT    more than kMaxEncodeBytes, or the vocabulary lacks a
  //                       byte of the text.
  //   RESOURCE_EXHAUSTED  the split pattern is too slow for this text.
  //
  // COST: O(n log n) with the patterns in use.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              EncodeOptions options = {}) const;

  // The text of `ids`. Bytes that are not UTF-8 become U+FFFD; ids without a
  // token, and with `skip_special_tokens` special ones, add nothing.
  std::string Decode(std::span<const int32_t> ids,
                     bool skip_special_tokens = false) const;

  // The bytes of one token, which need not be whole characters; empty if `id`
  // has no token. Valid as long as the tokenizer.
  std::string_view TokenBytes(int32_t id) const { return table_.Bytes(id); }

  // The token whose bytes are `token`, as TokenBytes gives them. An added token
  // comes before one of the vocabulary.
  std::optional<int32_t> Find(std::string_view token) const {
    return table_.Find(token);
  }

  // True for added tokens that the file marks as special.
  bool IsSpecial(int32_t id) const { return table_.IsSpecial(id); }

  // The largest id of a token, plus one. Rows of a model's head from here on
  // are padding and must not be sampled.
  int num_ids() const { return table_.num_ids(); }

 private:
  Tokenizer(const TokenizerSpec& spec, std::optional<SplitPattern> split);

  // Text without added tokens.
  absl::Status EncodePlain(std::string_view text,
                           std::vector<int32_t>* ids) const;

  TokenTable table_;
  Bpe bpe_;
  AddedTokenMatcher all_added_;
  AddedTokenMatcher plain_added_;  // Those that are not special.
  std::optional<SplitPattern> split_;
  bool normalize_nfc_;
  bool ignore_merges_;
};

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_TOKENIZER_H_
