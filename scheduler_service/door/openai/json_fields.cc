#include "scheduler_service/door/openai/json_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/field_error.h"
#include "common/json.h"

namespace bole {
namespace {

constexpr size_t kMaxMembers = 1024;

// REQUIRES: `json` is not nested deeper than kMaxBodyDepth.
absl::Status CheckMembers(const nlohmann::json& json) {
  if (!json.is_structured()) return absl::OkStatus();
  if (json.is_object() && json.size() > kMaxMembers) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON: an object has ", json.size(),
                     " members; allowed is [0, ", kMaxMembers, "]"));
  }
  for (const nlohmann::json& item : json) {
    if (absl::Status few = CheckMembers(item); !few.ok()) return few;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OrderedJson> ParseBody(std::string_view body) {
  {
    const absl::StatusOr<nlohmann::json> checked =
        ParseJson(body, kMaxBodyDepth);
    if (!checked.ok()) return checked.status();
    if (!checked->is_object()) {
      return absl::InvalidArgumentError("the body is not a JSON object");
    }
    if (absl::Status few = CheckMembers(*checked); !few.ok()) return few;
  }
  // Parsed again for the order of members, which tools keep in the prompt.
  return OrderedJson::parse(body, /*cb=*/nullptr, /*allow_exceptions=*/false);
}

absl::Status WrongValue(const std::string& path, const OrderedJson& value,
                        std::string_view allowed) {
  const std::string text = value.is_string() ? Quoted(value.get<std::string>())
                           : value.is_structured()
                               ? absl::StrCat("an ", value.type_name())
                               : value.dump();
  return BadField(path, text,
                  absl::string_view(allowed.data(), allowed.size()));
}

JsonFields::JsonFields(const OrderedJson& json, std::string path)
    : json_(json), path_(std::move(path)) {
  if (!json_.is_object()) Fail(WrongValue(path_, json_, "an object"));
}

std::string JsonFields::PathOf(std::string_view name) const {
  std::string path = path_;
  if (!path.empty()) path += '.';
  return path.append(name);
}

const OrderedJson* JsonFields::Take(const char* name) {
  if (!ok()) return nullptr;
  taken_.insert(name);
  const auto member = json_.find(name);
  if (member == json_.end() || member->is_null()) return nullptr;
  return &*member;
}

std::optional<bool> JsonFields::TakeBool(const char* name) {
  const OrderedJson* value = Take(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fail(WrongValue(PathOf(name), *value, "true or false"));
  return std::nullopt;
}

std::optional<std::string> JsonFields::TakeString(const char* name) {
  const OrderedJson* value = Take(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(WrongValue(PathOf(name), *value, "a string"));
  return std::nullopt;
}

std::optional<float> JsonFields::TakeFloat(const char* name) {
  const OrderedJson* value = Take(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (std::abs(number) <= std::numeric_limits<float>::max()) {
      return static_cast<float>(number);
    }
  }
  Fail(WrongValue(PathOf(name), *value, "a number that fits into a float"));
  return std::nullopt;
}

std::optional<int64_t> JsonFields::TakeInteger(const char* name, int64_t min,
                                               int64_t max) {
  const OrderedJson* value = Take(name);
  if (value == nullptr) return std::nullopt;
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() ||
       value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (fits) {
    const auto number = value->get<int64_t>();
    if (number >= min && number <= max) return number;
  }
  Fail(WrongValue(PathOf(name), *value,
                  absl::StrCat("an integer in [", min, ", ", max, "]")));
  return std::nullopt;
}

std::optional<int32_t> JsonFields::TakeInt32(const char* name) {
  const auto value = TakeInteger(name, INT32_MIN, INT32_MAX);
  if (!value) return std::nullopt;
  return static_cast<int32_t>(*value);
}

std::optional<uint32_t> JsonFields::TakeUint32(const char* name) {
  const auto value = TakeInteger(name, 0, UINT32_MAX);
  if (!value) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

const OrderedJson* JsonFields::TakeArray(const char* name) {
  const OrderedJson* value = Take(name);
  if (value == nullptr || value->is_array()) return value;
  Fail(WrongValue(PathOf(name), *value, "an array"));
  return nullptr;
}

void JsonFields::Ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) Take(name);
}

void JsonFields::AllowOnly(const char* name,
                           std::initializer_list<const char*> values) {
  const OrderedJson* value = Take(name);
  if (value == nullptr) return;
  for (const char* allowed : values) {
    if (value->is_string() && *value == allowed) return;
  }
  Fail(UnimplementedField(PathOf(name)));
}

void JsonFields::AllowOnly(const char* name, bool value) {
  const std::optional<bool> is = TakeBool(name);
  if (is && *is != value) Fail(UnimplementedField(PathOf(name)));
}

void JsonFields::Fail(absl::Status error) {
  if (error_.ok()) error_ = std::move(error);
}

absl::Status JsonFields::Finish() {
  if (!ok()) return error_;
  for (const auto& [name, value] : json_.items()) {
    if (value.is_null() || taken_.contains(name)) continue;
    Fail(AboutField(PathOf(name), absl::UnimplementedError(absl::StrCat(
                                      PathOf(name), " is not known"))));
    break;
  }
  return error_;
}

}  // namespace bole
