#include "common/tokenizer/added_tokens.h"

namespace bole {
namespace {

uint64_t Edge(uint32_t node, char byte) {
  return uint64_t{node} * 256 + static_cast<uint8_t>(byte);
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    uint32_t node = 0;
    for (const char byte : token.content) {
      const auto new_node = static_cast<uint32_t>(id_of_node_.size());
      const auto [edge, is_new] =
          child_.try_emplace(Edge(node, byte), new_node);
      if (is_new) id_of_node_.emplace_back();
      node = edge->second;
    }
    id_of_node_[node] = token.id;
    starts_token_[static_cast<uint8_t>(token.content[0])] = true;
  }
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::FindFirst(
    std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_token_[static_cast<uint8_t>(text[begin])]) continue;
    if (std::optional<Match> match = MatchAt(text, begin)) return match;
  }
  return std::nullopt;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::MatchAt(
    std::string_view text, size_t begin) const {
  std::optional<Match> longest;
  uint32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const auto edge = child_.find(Edge(node, text[i]));
    if (edge == child_.end()) break;
    node = edge->second;
    if (const std::optional<int32_t> id = id_of_node_[node]) {
      longest = Match{.begin = begin, .size = i + 1 - begin, .id = *id};
    }
  }
  return longest;
}

}  // namespace bole
