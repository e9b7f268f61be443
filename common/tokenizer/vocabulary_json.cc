#include "common/tokenizer/vocabulary_json.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

constexpr size_t kMaxAddedTokens = 1 << 16;

using IdSet = absl::flat_hash_set<int32_t>;

absl::Status IdTaken(const JsonField& field) {
  return field.Invalid("must not be the id of another token");
}

// Member `name` of a BPE model may be null, or have the value that changes
// nothing.
absl::Status RequireNeutral(const JsonField& model, const char* name,
                            const nlohmann::json& neutral) {
  const JsonField field = model.Member(name);
  const bool is_neutral = field.is_null() || field.value() == neutral;
  return is_neutral ? absl::OkStatus() : field.Unsupported();
}

absl::Status CheckModelOptions(const JsonField& model) {
  const JsonField type = model.Member("type");
  BOLE_ASSIGN_OR_RETURN(const std::string name, type.String());
  if (name != "BPE") return type.Unsupported();
  BOLE_RETURN_IF_ERROR(RequireNeutral(model, "dropout", 0));
  BOLE_RETURN_IF_ERROR(RequireNeutral(model, "unk_token", nullptr));
  BOLE_RETURN_IF_ERROR(RequireNeutral(model, "continuing_subword_prefix", ""));
  BOLE_RETURN_IF_ERROR(RequireNeutral(model, "end_of_word_suffix", ""));
  return RequireNeutral(model, "byte_fallback", false);
}

absl::Status ReadVocab(const JsonField& vocab, IdSet* ids,
                       TokenizerSpec* spec) {
  spec->vocab.reserve(vocab.value().size());
  for (const auto& [text, value] : vocab.value().items()) {
    const JsonField field(value, absl::StrCat("model.vocab[\"", text, "\"]"));
    BOLE_ASSIGN_OR_RETURN(const int32_t id, field.Index(kMaxTokenizerIds));
    if (!ids->insert(id).second) return IdTaken(field);
    spec->vocab.push_back({.text = text, .id = id});
  }
  return absl::OkStatus();
}

using TextPair = std::pair<std::string, std::string>;

// "left right" or ["left", "right"].
absl::StatusOr<TextPair> ReadMergeTexts(const JsonField& field) {
  if (field.value().is_array()) {
    if (field.value().size() != 2) return field.Invalid("must be a pair");
    BOLE_ASSIGN_OR_RETURN(std::string left, field.Element(0).String());
    BOLE_ASSIGN_OR_RETURN(std::string right, field.Element(1).String());
    return TextPair(std::move(left), std::move(right));
  }
  BOLE_ASSIGN_OR_RETURN(const std::string text, field.String());
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) {
    return field.Invalid("must be two tokens with one space between them");
  }
  return TextPair(text.substr(0, space), text.substr(space + 1));
}

absl::StatusOr<BpeMerge> ReadMerge(const JsonField& field,
                                   const nlohmann::json& vocab) {
  using Texts = TextPair;
  BOLE_ASSIGN_OR_RETURN(const Texts texts, ReadMergeTexts(field));
  const auto id_of = [&](const std::string& text) -> absl::StatusOr<int32_t> {
    const auto entry = vocab.find(text);
    if (entry != vocab.end()) return entry->get<int32_t>();
    return absl::InvalidArgumentError(absl::StrCat(
        field.path(), ": \"", text, "\" is not a token of model.vocab"));
  };
  BpeMerge merge;
  BOLE_ASSIGN_OR_RETURN(merge.left, id_of(texts.first));
  BOLE_ASSIGN_OR_RETURN(merge.right, id_of(texts.second));
  BOLE_ASSIGN_OR_RETURN(merge.merged, id_of(texts.first + texts.second));
  return merge;
}

absl::StatusOr<AddedToken> ReadAddedToken(const JsonField& field) {
  BOLE_RETURN_IF_ERROR(field.Object().status());
  for (const char* name : {"single_word", "lstrip", "rstrip", "normalized"}) {
    const JsonField option = field.Member(name);
    BOLE_ASSIGN_OR_RETURN(const bool is_on, option.Bool(/*if_null=*/false));
    if (is_on) return option.Unsupported();
  }
  AddedToken token;
  const JsonField content = field.Member("content");
  BOLE_ASSIGN_OR_RETURN(token.content, content.String());
  if (token.content.empty() || token.content.size() > kMaxAddedTokenBytes) {
    return content.Invalid(
        absl::StrCat("must have 1 to ", kMaxAddedTokenBytes, " bytes"));
  }
  BOLE_ASSIGN_OR_RETURN(token.id, field.Member("id").Index(kMaxTokenizerIds));
  BOLE_ASSIGN_OR_RETURN(token.is_special,
                        field.Member("special").Bool(/*if_null=*/false));
  return token;
}

// An added token takes a new id, or repeats a vocabulary entry.
absl::Status ReadAddedTokens(const JsonField& field,
                             const nlohmann::json& vocab, IdSet* ids,
                             TokenizerSpec* spec) {
  if (field.is_null()) return absl::OkStatus();
  BOLE_RETURN_IF_ERROR(field.Array().status());
  if (field.value().size() > kMaxAddedTokens) {
    return field.Invalid(
        absl::StrCat("must have at most ", kMaxAddedTokens, " elements"));
  }
  absl::flat_hash_set<std::string> contents;
  for (size_t i = 0; i < field.value().size(); ++i) {
    const JsonField element = field.Element(i);
    BOLE_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(element));
    if (!contents.insert(token.content).second) {
      return element.Member("content").Invalid("must not come twice");
    }
    const auto entry = vocab.find(token.content);
    const bool repeats = entry != vocab.end() && *entry == token.id;
    if (!repeats && (entry != vocab.end() || !ids->insert(token.id).second)) {
      return IdTaken(element.Member("id"));
    }
    spec->added_tokens.push_back(std::move(token));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadVocabulary(const JsonField& root, TokenizerSpec* spec) {
  BOLE_ASSIGN_OR_RETURN(const JsonField model, root.Member("model").Object());
  BOLE_RETURN_IF_ERROR(CheckModelOptions(model));
  BOLE_ASSIGN_OR_RETURN(spec->ignore_merges,
                        model.Member("ignore_merges").Bool(/*if_null=*/false));
  BOLE_ASSIGN_OR_RETURN(const JsonField vocab, model.Member("vocab").Object());
  IdSet ids;
  BOLE_RETURN_IF_ERROR(ReadVocab(vocab, &ids, spec));
  BOLE_ASSIGN_OR_RETURN(const JsonField merges, model.Member("merges").Array());
  spec->merges.reserve(merges.value().size());
  for (size_t i = 0; i < merges.value().size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(const BpeMerge merge,
                          ReadMerge(merges.Element(i), vocab.value()));
    spec->merges.push_back(merge);
  }
  return ReadAddedTokens(root.Member("added_tokens"), vocab.value(), &ids,
                         spec);
}

}  // namespace bole
