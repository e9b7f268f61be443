#include "common/tokenizer/tokenizer_json.h"

#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "common/tokenizer/json_field.h"
#include "common/tokenizer/vocabulary_json.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

constexpr int kMaxJsonDepth = 16;

// The type of a part of the pipeline; empty if the part is null.
absl::StatusOr<std::string> TypeOf(const JsonField& part) {
  if (part.is_null()) return "";
  BOLE_ASSIGN_OR_RETURN(const JsonField object, part.Object());
  return object.Member("type").String();
}

// REQUIRES: TypeOf(part) is ok.
absl::Status UnsupportedType(const JsonField& part) {
  return part.is_null() ? part.Unsupported()
                        : part.Member("type").Unsupported();
}

// An error unless member `name` of `part` is false. The format's own default
// for both options of ByteLevel is true.
absl::Status RequireFalse(const JsonField& part, const char* name,
                          bool if_null) {
  const JsonField field = part.Member(name);
  BOLE_ASSIGN_OR_RETURN(const bool is_on, field.Bool(if_null));
  return is_on ? field.Unsupported() : absl::OkStatus();
}

absl::Status ReadNormalizer(const JsonField& part, TokenizerSpec* spec) {
  BOLE_ASSIGN_OR_RETURN(const std::string type, TypeOf(part));
  if (!type.empty() && type != "NFC") return UnsupportedType(part);
  spec->normalize_nfc = type == "NFC";
  return absl::OkStatus();
}

absl::Status ReadSplit(const JsonField& part, TokenizerSpec* spec) {
  BOLE_ASSIGN_OR_RETURN(const std::string type, TypeOf(part));
  if (type != "Split") return UnsupportedType(part);
  BOLE_ASSIGN_OR_RETURN(const JsonField pattern,
                        part.Member("pattern").Object());
  const JsonField literal = pattern.Member("String");
  if (!literal.is_null()) return literal.Unsupported();
  const JsonField regex = pattern.Member("Regex");
  BOLE_ASSIGN_OR_RETURN(spec->split_pattern, regex.String());
  if (spec->split_pattern.empty()) return regex.Invalid("must not be empty");
  const JsonField behavior = part.Member("behavior");
  if (behavior.value() != "Isolated") return behavior.Unsupported();
  return RequireFalse(part, "invert", /*if_null=*/false);
}

absl::Status CheckByteLevel(const JsonField& part) {
  BOLE_ASSIGN_OR_RETURN(const std::string type, TypeOf(part));
  if (type != "ByteLevel") return UnsupportedType(part);
  BOLE_RETURN_IF_ERROR(
      RequireFalse(part, "add_prefix_space", /*if_null=*/true));
  return RequireFalse(part, "use_regex", /*if_null=*/true);
}

// ByteLevel, alone or after a Split in a Sequence.
absl::Status ReadPreTokenizer(const JsonField& part, TokenizerSpec* spec) {
  BOLE_ASSIGN_OR_RETURN(const std::string type, TypeOf(part));
  if (type != "Sequence") return CheckByteLevel(part);
  BOLE_ASSIGN_OR_RETURN(const JsonField steps,
                        part.Member("pretokenizers").Array());
  const size_t num_steps = steps.value().size();
  if (num_steps != 1 && num_steps != 2) return steps.Unsupported();
  if (num_steps == 2) {
    BOLE_RETURN_IF_ERROR(ReadSplit(steps.Element(0), spec));
  }
  return CheckByteLevel(steps.Element(num_steps - 1));
}

// As a post-processor ByteLevel moves offsets only, which nobody asks for.
absl::Status CheckPostProcessor(const JsonField& part) {
  BOLE_ASSIGN_OR_RETURN(const std::string type, TypeOf(part));
  if (type.empty() || type == "ByteLevel") return absl::OkStatus();
  return UnsupportedType(part);
}

// The options of ByteLevel mean nothing to a decoder.
absl::Status CheckDecoder(const JsonField& part) {
  BOLE_ASSIGN_OR_RETURN(const std::string type, TypeOf(part));
  return type == "ByteLevel" ? absl::OkStatus() : UnsupportedType(part);
}

}  // namespace

absl::StatusOr<TokenizerSpec> ParseTokenizerJson(std::string_view json) {
  if (json.size() > kMaxTokenizerJsonBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer.json has ", json.size(),
                     " bytes; the limit is ", kMaxTokenizerJsonBytes));
  }
  BOLE_ASSIGN_OR_RETURN(const nlohmann::json document,
                        ParseJson(json, kMaxJsonDepth));
  const JsonField root(document, "");
  if (!document.is_object()) {
    return JsonField(document, "tokenizer.json").Object().status();
  }
  TokenizerSpec spec;
  BOLE_RETURN_IF_ERROR(ReadNormalizer(root.Member("normalizer"), &spec));
  BOLE_RETURN_IF_ERROR(ReadPreTokenizer(root.Member("pre_tokenizer"), &spec));
  BOLE_RETURN_IF_ERROR(CheckPostProcessor(root.Member("post_processor")));
  BOLE_RETURN_IF_ERROR(CheckDecoder(root.Member("decoder")));
  BOLE_RETURN_IF_ERROR(ReadVocabulary(root, &spec));
  return spec;
}

}  // namespace bole
