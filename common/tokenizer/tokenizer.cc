#include "common/tokenizer/tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/tokenizer/nfc.h"
#include "common/tokenizer/read_file.h"
#include "common/tokenizer/utf8.h"

namespace bole {
namespace {

std::vector<AddedToken> NotSpecial(const std::vector<AddedToken>& tokens) {
  std::vector<AddedToken> plain;
  for (const AddedToken& token : tokens) {
    if (!token.is_special) plain.push_back(token);
  }
  return plain;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(
    const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const std::string json,
                        ReadFile(path, kMaxTokenizerJsonBytes));
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = FromJson(json);
  if (tokenizer.ok()) return tokenizer;
  return absl::Status(tokenizer.status().code(),
                      absl::StrCat(path, ": ", tokenizer.status().message()));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(
    std::string_view json) {
  BOLE_ASSIGN_OR_RETURN(const TokenizerSpec spec, ParseTokenizerJson(json));
  std::optional<SplitPattern> split;
  if (!spec.split_pattern.empty()) {
    BOLE_ASSIGN_OR_RETURN(split, SplitPattern::Compile(spec.split_pattern));
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(spec, std::move(split)));
}

Tokenizer::Tokenizer(const TokenizerSpec& spec,
                     std::optional<SplitPattern> split)
    : table_(spec),
      bpe_(table_.ByteIds(), spec.merges),
      all_added_(spec.added_tokens),
      plain_added_(NotSpecial(spec.added_tokens)),
      split_(std::move(split)),
      normalize_nfc_(spec.normalize_nfc),
      ignore_merges_(spec.ignore_merges) {}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(
    std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxEncodeBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "text has ", text.size(), " bytes; the limit is ", kMaxEncodeBytes));
  }
  std::string repaired;
  if (!IsValidUtf8(text)) text = repaired = ReplaceInvalidUtf8(text);

  const AddedTokenMatcher& added =
      options.parse_special_tokens ? all_added_ : plain_added_;
  std::vector<int32_t> ids;
  size_t done = 0;
  while (done < text.size()) {
    const auto match = added.FindFirst(text, done);
    const size_t end = match ? match->begin : text.size();
    BOLE_RETURN_IF_ERROR(EncodePlain(text.substr(done, end - done), &ids));
    if (!match) break;
    ids.push_back(match->id);
    done = end + match->size;
  }
  return ids;
}

absl::Status Tokenizer::EncodePlain(std::string_view text,
                                    std::vector<int32_t>* ids) const {
  std::string normalized;
  if (normalize_nfc_) text = normalized = NormalizeNfc(text);
  std::vector<std::string_view> pieces;
  if (split_) {
    BOLE_RETURN_IF_ERROR(split_->Split(text, &pieces));
  } else {
    pieces.push_back(text);
  }
  for (const std::string_view piece : pieces) {
    if (ignore_merges_) {
      if (const std::optional<int32_t> id = table_.FindInVocab(piece)) {
        ids->push_back(*id);
        continue;
      }
    }
    BOLE_RETURN_IF_ERROR(bpe_.Encode(piece, ids));
  }
  return absl::OkStatus();
}

std::string Tokenizer::Decode(std::span<const int32_t> ids,
                              bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (skip_special_tokens && IsSpecial(id)) continue;
    bytes += TokenBytes(id);
  }
  return ReplaceInvalidUtf8(bytes);
}

}  // namespace bole
