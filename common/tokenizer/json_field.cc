#include "common/tokenizer/json_field.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

constexpr size_t kMaxShownBytes = 80;

const nlohmann::json& Null() {
  static const nlohmann::json null;
  return null;
}

}  // namespace

bool JsonField::is_null() const { return value_->is_null(); }

JsonField JsonField::Member(const char* name) const {
  const auto member = value_->find(name);
  return {member == value_->end() ? Null() : *member,
          path_.empty() ? name : absl::StrCat(path_, ".", name)};
}

JsonField JsonField::Element(size_t index) const {
  return {(*value_)[index], absl::StrCat(path_, "[", index, "]")};
}

absl::StatusOr<JsonField> JsonField::Object() const {
  if (!value_->is_object()) return Invalid("must be an object");
  return *this;
}

absl::StatusOr<JsonField> JsonField::Array() const {
  if (!value_->is_array()) return Invalid("must be an array");
  return *this;
}

absl::StatusOr<std::string> JsonField::String() const {
  if (!value_->is_string()) return Invalid("must be a string");
  return value_->get<std::string>();
}

absl::StatusOr<bool> JsonField::Bool(bool if_null) const {
  if (value_->is_null()) return if_null;
  if (!value_->is_boolean()) return Invalid("must be true or false");
  return value_->get<bool>();
}

absl::StatusOr<int32_t> JsonField::Index(int32_t limit) const {
  // A non-negative literal is parsed as unsigned.
  if (!value_->is_number_unsigned() ||
      value_->get<uint64_t>() >= static_cast<uint64_t>(limit)) {
    return Invalid(absl::StrCat("must be an integer from 0 to ", limit - 1));
  }
  return value_->get<int32_t>();
}

absl::Status JsonField::Invalid(std::string_view problem) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": ", std::string(problem), ", but it is ", Shown()));
}

absl::Status JsonField::Unsupported() const {
  return absl::UnimplementedError(
      absl::StrCat(path_, ": ", Shown(), " is not supported"));
}

std::string JsonField::Shown() const {
  // A container may be the whole file.
  if (value_->is_object()) {
    return absl::StrCat("an object of ", value_->size(), " members");
  }
  if (value_->is_array()) {
    return absl::StrCat("an array of ", value_->size(), " elements");
  }
  std::string text = value_->dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > kMaxShownBytes) {
    text = absl::StrCat(text.substr(0, kMaxShownBytes), "...");
  }
  return text;
}

}  // namespace bole
