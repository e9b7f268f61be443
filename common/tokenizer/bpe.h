// Byte pair encoding: joining bytes into tokens by the rank of their merges.
#ifndef BOLE_COMMON_TOKENIZER_BPE_H_
#define BOLE_COMMON_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace bole {

// Two neighbours that may become one token.
struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;
};

// The merge rules of a vocabulary. Immutable, so safe to share between threads.
class Bpe {
 public:
  // `byte_ids` gives the token of each single byte, if it has one; `merges` are
  // in order of rank, lowest first. If a pair occurs twice, the later rank
  // counts.
  Bpe(const std::array<std::optional<int32_t>, 256>& byte_ids,
      const std::vector<BpeMerge>& merges);

  // Appends the tokens of `piece`: starting from single bytes, the pair of
  // neighbours with the lowest rank is merged, the leftmost of equals, until no
  // pair has a merge.
  //
  // INVALID_ARGUMENT if a byte of `piece` has no token.
  //
  // COST: O(n log n) for n bytes, whatever they are.
  absl::Status Encode(std::string_view piece, std::vector<int32_t>* ids) const;

 private:
  friend class BpeWord;
  struct Rule {
    int32_t rank;
    int32_t merged;
  };

  const Rule* FindRule(int32_t left, int32_t right) const;

  std::array<std::optional<int32_t>, 256> byte_ids_;
  absl::flat_hash_map<uint64_t, Rule> rules_;  // Key: left, right.
};

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_BPE_H_
