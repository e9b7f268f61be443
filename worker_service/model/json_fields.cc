#include "worker_service/model/json_fields.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using nlohmann::json;

// A value as an error message shows it: as written if that is short, otherwise
// its type.
std::string Shown(const json& value) {
  constexpr size_t kMaxBytes = 64;
  if (value.is_structured()) {
    return absl::StrCat("a list or object of ", value.size());
  }
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true,
                                      json::error_handler_t::replace);
  return text.size() <= kMaxBytes ? text : text.substr(0, kMaxBytes) + "...";
}

// Whether the integer is in the range, without converting one that is not.
bool InRange(const json& value, IntRange range) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number <= uint64_t{INT32_MAX} &&
           static_cast<int>(number) >= range.min &&
           static_cast<int>(number) <= range.max;
  }
  const auto number = value.get<int64_t>();
  return number >= range.min && number <= range.max;
}

std::string Listed(JsonFields::Choices choices) {
  std::string list;
  for (const std::string_view choice : choices) {
    list +=
        absl::StrCat(list.empty() ? "\"" : " or \"", std::string(choice), "\"");
  }
  return list;
}

}  // namespace

int JsonFields::Int(const char* key, IntRange range,
                    std::optional<int> fallback) {
  const json* value = Member(key);
  if (value != nullptr) return ReadInt(key, *value, range);
  if (!fallback) {
    Fail(key, absl::StrCat("missing, expected an integer in [", range.min, ", ",
                           range.max, "]"));
  }
  return fallback.value_or(range.min);
}

double JsonFields::Number(const char* key, NumberRange range,
                          std::optional<double> fallback) {
  const std::string expected =
      absl::StrCat("a number in [", range.min, ", ", range.max, "]");
  const json* value = Member(key);
  if (value == nullptr) {
    if (!fallback) Fail(key, absl::StrCat("missing, expected ", expected));
    return fallback.value_or(range.min);
  }
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= range.min && number <= range.max) return number;
  }
  FailExpected(key, *value, expected);
  return fallback.value_or(range.min);
}

bool JsonFields::Bool(const char* key, bool fallback) {
  const json* value = Member(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  FailExpected(key, *value, "true or false");
  return fallback;
}

std::string JsonFields::OneOf(const char* key, Choices choices) {
  const json* value = Member(key);
  return value == nullptr ? "" : ReadChoice(key, *value, choices);
}

std::vector<std::string> JsonFields::EachOneOf(const char* key,
                                               Choices choices) {
  std::vector<std::string> strings;
  const json* value = Member(key);
  if (value == nullptr) return strings;
  if (!value->is_array()) {
    FailExpected(key, *value, absl::StrCat("a list of ", Listed(choices)));
    return strings;
  }
  for (const json& element : *value) {
    strings.push_back(ReadChoice(key, element, choices));
  }
  return strings;
}

std::vector<int> JsonFields::IntOrInts(const char* key, IntRange range) {
  const json* value = Member(key);
  if (value == nullptr) return {};
  if (!value->is_array()) return {ReadInt(key, *value, range)};
  std::vector<int> integers;
  for (const json& element : *value) {
    integers.push_back(ReadInt(key, element, range));
  }
  return integers;
}

const json* JsonFields::Object(const char* key) {
  const json* value = Member(key);
  if (value == nullptr || value->is_object()) return value;
  FailExpected(key, *value, "an object");
  return nullptr;
}

void JsonFields::OnlyBool(const char* key, bool only) {
  const json* value = Member(key);
  if (value == nullptr || (value->is_boolean() && value->get<bool>() == only)) {
    return;
  }
  FailExpected(key, *value, only ? "true" : "false");
}

void JsonFields::OnlyAbsent(const char* key, std::string_view why) {
  if (Has(key)) Fail(key, why);
}

void JsonFields::Fail(const char* key, std::string_view what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat(PathOf(key), ": ", std::string(what)));
}

std::string JsonFields::PathOf(const char* key) const {
  return path_.empty() ? key : absl::StrCat(path_, ".", key);
}

const json* JsonFields::Member(const char* key) const {
  const auto member = object_.find(key);
  if (member == object_.end() || member->is_null()) return nullptr;
  return &*member;
}

void JsonFields::FailExpected(const char* key, const json& found,
                              std::string_view expected) {
  Fail(key, absl::StrCat(Shown(found), ", expected ", std::string(expected)));
}

int JsonFields::ReadInt(const char* key, const json& value, IntRange range) {
  if (value.is_number_integer() && InRange(value, range)) {
    return value.get<int>();
  }
  FailExpected(
      key, value,
      absl::StrCat("an integer in [", range.min, ", ", range.max, "]"));
  return range.min;
}

std::string JsonFields::ReadChoice(const char* key, const json& value,
                                   Choices choices) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    for (const std::string_view choice : choices) {
      if (text == choice) return text;
    }
  }
  FailExpected(key, value, Listed(choices));
  return std::string(*choices.begin());
}

}  // namespace bole
