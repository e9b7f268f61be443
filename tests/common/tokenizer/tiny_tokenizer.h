// tokenizer.json documents small enough to reason about.
#ifndef BOLE_TESTS_COMMON_TOKENIZER_TINY_TOKENIZER_H_
#define BOLE_TESTS_COMMON_TOKENIZER_TINY_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json_fwd.hpp"

namespace bole::testing {

// The split pattern of Qwen3.5.
inline constexpr std::string_view kQwenSplit =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

// Parts of a tokenizer.json: a pre-tokenizer or decoder of bytes, a
// pre-tokenizer that splits, and an added token.
nlohmann::json ByteLevel();
nlohmann::json Split(std::string_view pattern);
nlohmann::json Added(std::string_view content, int id, bool special);

// Ids 0..255 are the single bytes, in order. 256 "ab", 257 "bc", 258 "abc" (of
// "ab" and "c"), 259 " a". Added: 300 <s> and 302 <s>x, special, 301 <t>, not.
// "bc" has the lowest rank, then "ab", "abc", " a".
nlohmann::json TinyJson();

// The same document as text.
std::string TinyTokenizerJson();

// REQUIRES: `json` is a valid tokenizer.json.
std::unique_ptr<Tokenizer> MakeTokenizer(const nlohmann::json& json);

// The tokenizer of TinyJson(), for tests that have no use for its document.
std::unique_ptr<Tokenizer> MakeTinyTokenizer();

// REQUIRES: `text` can be encoded.
std::vector<int32_t> EncodeOrDie(const Tokenizer& tokenizer,
                                 std::string_view text,
                                 EncodeOptions options = {});

}  // namespace bole::testing

#endif  // BOLE_TESTS_COMMON_TOKENIZER_TINY_TOKENIZER_H_
