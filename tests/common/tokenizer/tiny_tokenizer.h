// tokenizer.json documents small enough to reason about.
#ifndef BOLE_TESTS_COMMON_TOKENIZER_TINY_TOKENIZER_H_
#define BOLE_TESTS_COMMON_TOKENIZER_TINY_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/tokenizer/byte_map.h"
#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace bole::testing {

// The split pattern of Qwen3.5.
inline constexpr std::string_view kQwenSplit =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

inline nlohmann::json ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

inline nlohmann::json Split(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

inline nlohmann::json Added(std::string_view content, int id, bool special) {
  return {{"id", id},          {"content", content}, {"single_word", false},
          {"lstrip", false},   {"rstrip", false},    {"normalized", false},
          {"special", special}};
}

// Ids 0..255 are the single bytes, in order. 256 "ab", 257 "bc", 258 "abc" (of
// "ab" and "c"), 259 " a". Added: 300 <s> and 302 <s>x, special, 301 <t>, not.
// "bc" has the lowest rank, then "ab", "abc", " a".
inline nlohmann::json TinyJson() {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[PrintableOfBytes(std::string(1, static_cast<char>(byte)))] = byte;
  }
  vocab["ab"] = 256;
  vocab["bc"] = 257;
  vocab["abc"] = 258;
  vocab["\u0120a"] = 259;
  return {
      {"added_tokens",
       {Added("<s>", 300, true), Added("<t>", 301, false),
        Added("<s>x", 302, true)}},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", {Split(kQwenSplit), ByteLevel()}}}},
      {"post_processor", nullptr},
      {"decoder", ByteLevel()},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocab},
        {"merges", {"b c", "a b", "ab c", "\u0120 a"}}}},
  };
}

inline std::unique_ptr<Tokenizer> MakeTokenizer(const nlohmann::json& json) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::FromJson(json.dump());
  BOLE_CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

// REQUIRES: `text` can be encoded.
inline std::vector<int32_t> EncodeOrDie(const Tokenizer& tokenizer,
                                        std::string_view text,
                                        EncodeOptions options = {}) {
  absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(text, options);
  BOLE_CHECK(ids.ok());
  return *std::move(ids);
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_COMMON_TOKENIZER_TINY_TOKENIZER_H_
