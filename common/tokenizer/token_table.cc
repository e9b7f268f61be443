#include "common/tokenizer/token_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/tokenizer/byte_map.h"

namespace bole {
namespace {

std::optional<int32_t> FindIn(
    const absl::flat_hash_map<std::string, int32_t>& map,
    std::string_view bytes) {
  const auto entry = map.find(absl::string_view(bytes.data(), bytes.size()));
  if (entry == map.end()) return std::nullopt;
  return entry->second;
}

int32_t NumIds(const TokenizerSpec& spec) {
  int32_t num_ids = 0;
  for (const auto& entry : spec.vocab) {
    num_ids = std::max(num_ids, entry.id + 1);
  }
  for (const AddedToken& token : spec.added_tokens) {
    num_ids = std::max(num_ids, token.id + 1);
  }
  return num_ids;
}

}  // namespace

TokenTable::TokenTable(const TokenizerSpec& spec)
    : bytes_(NumIds(spec)), is_special_(bytes_.size()) {
  vocab_.reserve(spec.vocab.size());
  for (const auto& [text, id] : spec.vocab) {
    std::optional<std::string> bytes = BytesOfPrintable(text);
    if (bytes) vocab_.emplace(*bytes, id);
    bytes_[id] = bytes ? *std::move(bytes) : text;
  }
  for (const AddedToken& token : spec.added_tokens) {
    added_.emplace(token.content, token.id);
    bytes_[token.id] = token.content;
    is_special_[token.id] = token.is_special;
  }
}

std::string_view TokenTable::Bytes(int32_t id) const {
  if (id < 0 || id >= num_ids()) return {};
  return bytes_[id];
}

bool TokenTable::IsSpecial(int32_t id) const {
  return id >= 0 && id < num_ids() && is_special_[id];
}

std::optional<int32_t> TokenTable::Find(std::string_view bytes) const {
  if (const std::optional<int32_t> id = FindIn(added_, bytes)) return id;
  return FindInVocab(bytes);
}

std::optional<int32_t> TokenTable::FindInVocab(std::string_view bytes) const {
  return FindIn(vocab_, bytes);
}

std::array<std::optional<int32_t>, 256> TokenTable::ByteIds() const {
  std::array<std::optional<int32_t>, 256> ids;
  for (size_t byte = 0; byte < ids.size(); ++byte) {
    ids[byte] = FindInVocab(std::string(1, static_cast<char>(byte)));
  }
  return ids;
}

}  // namespace bole
