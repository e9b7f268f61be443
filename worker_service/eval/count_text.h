// Counts how often each token occurs in a text.
#ifndef BOLE_WORKER_SERVICE_EVAL_COUNT_TEXT_H_
#define BOLE_WORKER_SERVICE_EVAL_COUNT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/tokenizer/tokenizer.h"

namespace bole {

// Adds the tokens of `text` to `count`, which has an entry for every id. The
// text is encoded in pieces that end at line breaks; after each piece,
// `on_piece` is called with its size in bytes. Special tokens that the text
// spells out are taken as plain text.
// Errors: those of Tokenizer::Encode().
absl::Status CountText(const Tokenizer& tokenizer, std::string_view text,
                       std::vector<int64_t>& count,
                       const std::function<void(size_t)>& on_piece);

struct ChosenTokens {
  std::vector<int32_t> tokens;  // Ascending.
  double coverage = 0;  // Share of the counted tokens that is in the list.
};

// The `required` tokens and the most frequent of the others, `size` in all.
// Among equally frequent tokens the lower id comes first. There are fewer only
// if `count` has fewer entries.
// REQUIRES: required ids are below count.size().
ChosenTokens ChooseTokens(const std::vector<int64_t>& count,
                          const std::vector<int32_t>& required, int size);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_COUNT_TEXT_H_
