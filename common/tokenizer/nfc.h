// Unicode normalisation form C.
#ifndef BOLE_COMMON_TOKENIZER_NFC_H_
#define BOLE_COMMON_TOKENIZER_NFC_H_

#include <string>
#include <string_view>

namespace bole {

// `text` in normalisation form C.
//
// REQUIRES: `text` is valid UTF-8.
// COST: O(n log n) for any text; a run of combining marks is sorted by a merge
// sort. ASCII is only copied.
std::string NormalizeNfc(std::string_view text);

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_NFC_H_
