#include "tests/common/tokenizer/tiny_tokenizer.h"

#include <utility>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/tokenizer/byte_map.h"
#include "nlohmann/json.hpp"

namespace bole::testing {

nlohmann::json ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

nlohmann::json Split(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

nlohmann::json Added(std::string_view content, int id, bool special) {
  return {{"id", id},          {"content", content}, {"single_word", false},
          {"lstrip", false},   {"rstrip", false},    {"normalized", false},
          {"special", special}};
}

nlohmann::json TinyJson() {
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

std::string TinyTokenizerJson() { return TinyJson().dump(); }

std::unique_ptr<Tokenizer> MakeTokenizer(const nlohmann::json& json) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::FromJson(json.dump());
  BOLE_CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

std::unique_ptr<Tokenizer> MakeTinyTokenizer() {
  return MakeTokenizer(TinyJson());
}

std::vector<int32_t> EncodeOrDie(const Tokenizer& tokenizer,
                                 std::string_view text, EncodeOptions options) {
  absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(text, options);
  BOLE_CHECK(ids.ok());
  return *std::move(ids);
}

}  // namespace bole::testing
