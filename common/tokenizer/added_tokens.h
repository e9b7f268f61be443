// Tokens that are matched whole, before any other rule of the tokenizer.
#ifndef BOLE_COMMON_TOKENIZER_ADDED_TOKENS_H_
#define BOLE_COMMON_TOKENIZER_ADDED_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace bole {

struct AddedToken {
  std::string content;  // Valid UTF-8, 1..kMaxAddedTokenBytes bytes.
  int32_t id = 0;
  bool is_special = false;  // A control token; hidden by skip_special_tokens.
};

// Matching is linear in the text times this bound.
inline constexpr size_t kMaxAddedTokenBytes = 256;

// Finds added tokens in text. Immutable, so safe to share between threads.
class AddedTokenMatcher {
 public:
  struct Match {
    size_t begin;
    size_t size;
    int32_t id;
  };

  AddedTokenMatcher() = default;

  // REQUIRES: contents are distinct and within their bounds.
  explicit AddedTokenMatcher(const std::vector<AddedToken>& tokens);

  // The leftmost match in text[from..), and of those that start there the
  // longest, or none.
  //
  // COST: O(text.size() - from) but for near misses, which cost their length.
  std::optional<Match> FindFirst(std::string_view text, size_t from) const;

 private:
  // The longest match that starts at text[begin].
  std::optional<Match> MatchAt(std::string_view text, size_t begin) const;

  // A trie of bytes. Node 0 is the root; child_ maps node * 256 + byte.
  absl::flat_hash_map<uint64_t, uint32_t> child_;
  std::vector<std::optional<int32_t>> id_of_node_{std::nullopt};
  std::array<bool, 256> starts_token_{};
};

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_ADDED_TOKENS_H_
