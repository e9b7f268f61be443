#include "common/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "common/tokenizer/json_field.h"
#include "common/tokenizer/read_file.h"
#include "common/tokenizer/tokenizer_json.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

constexpr int kMaxConfigDepth = 16;
constexpr size_t kMaxConfigBytes = 16 << 20;

absl::StatusOr<std::string> ReadContent(const JsonField& field) {
  if (!field.value().is_object()) return field.String();
  return field.Member("content").String();
}

absl::StatusOr<AddedToken> ReadDecoderEntry(const std::string& id,
                                            const JsonField& field) {
  AddedToken token;
  if (!absl::SimpleAtoi(id, &token.id) || token.id < 0 ||
      token.id >= kMaxTokenizerIds) {
    return absl::InvalidArgumentError(
        absl::StrCat(field.path(), ": the name must be an id from 0 to ",
                     kMaxTokenizerIds - 1));
  }
  BOLE_RETURN_IF_ERROR(field.Object().status());
  BOLE_ASSIGN_OR_RETURN(token.content, field.Member("content").String());
  BOLE_ASSIGN_OR_RETURN(token.is_special,
                        field.Member("special").Bool(/*if_null=*/false));
  return token;
}

}  // namespace

absl::StatusOr<TokenizerConfig> ParseTokenizerConfig(std::string_view json) {
  BOLE_ASSIGN_OR_RETURN(const nlohmann::json document,
                        ParseJson(json, kMaxConfigDepth));
  if (!document.is_object()) {
    return absl::InvalidArgumentError("is not a JSON object");
  }
  const JsonField root(document, "");
  TokenizerConfig config;
  const JsonField eos = root.Member("eos_token");
  if (!eos.is_null()) {
    BOLE_ASSIGN_OR_RETURN(config.eos_token, ReadContent(eos));
  }
  const JsonField decoder = root.Member("added_tokens_decoder");
  if (decoder.is_null()) return config;
  BOLE_RETURN_IF_ERROR(decoder.Object().status());
  for (const auto& [id, value] : decoder.value().items()) {
    BOLE_ASSIGN_OR_RETURN(
        AddedToken token,
        ReadDecoderEntry(id, JsonField(value, absl::StrCat(decoder.path(),
                                                           "[\"", id, "\"]"))));
    config.added_tokens.push_back(std::move(token));
  }
  std::sort(config.added_tokens.begin(), config.added_tokens.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return config;
}

absl::StatusOr<TokenizerConfig> LoadTokenizerConfig(
    const std::string& directory) {
  const std::string path = directory + "/tokenizer_config.json";
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return TokenizerConfig{};
  BOLE_RETURN_IF_ERROR(text.status());
  absl::StatusOr<TokenizerConfig> config = ParseTokenizerConfig(*text);
  if (config.ok()) return config;
  return absl::Status(config.status().code(),
                      absl::StrCat(path, ": ", config.status().message()));
}

}  // namespace bole
