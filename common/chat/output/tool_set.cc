#include "common/chat/output/tool_set.h"

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "common/json.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Json = nlohmann::ordered_json;

constexpr ValueKinds kAllKinds = {.string = true,
                                  .number = true,
                                  .boolean = true,
                                  .null = true,
                                  .object = true,
                                  .array = true};

bool IsAny(const ValueKinds& kinds) {
  return kinds.string || kinds.number || kinds.boolean || kinds.null ||
         kinds.object || kinds.array;
}

// Null if `json` is no object or has no such member.
const Json* Member(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found != json.end() ? &*found : nullptr;
}

void AddType(const Json& type, ValueKinds& kinds) {
  kinds.string |= type == "string";
  kinds.number |= type == "number" || type == "integer";
  kinds.boolean |= type == "boolean";
  kinds.null |= type == "null";
  kinds.object |= type == "object";
  kinds.array |= type == "array";
}

void AddKindOf(const Json& value, ValueKinds& kinds) {
  kinds.string |= value.is_string();
  kinds.number |= value.is_number();
  kinds.boolean |= value.is_boolean();
  kinds.null |= value.is_null();
  kinds.object |= value.is_object();
  kinds.array |= value.is_array();
}

void AddTypes(const Json& schema, ValueKinds& kinds) {
  const Json* type = Member(schema, "type");
  if (type == nullptr) return;
  if (!type->is_array()) return AddType(*type, kinds);
  for (const Json& one : *type) AddType(one, kinds);
}

ValueKinds KindsOfSchema(const Json& schema) {
  ValueKinds kinds;
  AddTypes(schema, kinds);
  for (const char* name : {"anyOf", "oneOf"}) {
    const Json* several = Member(schema, name);
    if (several == nullptr || !several->is_array()) continue;
    for (const Json& one : *several) AddTypes(one, kinds);
  }
  const Json* values = Member(schema, "enum");
  if (!IsAny(kinds) && values != nullptr && values->is_array()) {
    for (const Json& value : *values) AddKindOf(value, kinds);
  }
  return IsAny(kinds) ? kinds : kAllKinds;
}

// What Python's str() makes of a constant, as JSON.
std::string_view JsonOfPython(std::string_view text) {
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text == "None") return "null";
  return text;
}

bool Allows(const ValueKinds& kinds, const nlohmann::json& value) {
  return (kinds.number && value.is_number()) ||
         (kinds.boolean && value.is_boolean()) ||
         (kinds.null && value.is_null()) ||
         (kinds.object && value.is_object()) ||
         (kinds.array && value.is_array());
}

bool OnlyString(const ValueKinds& kinds) {
  return kinds.string && !(kinds.number || kinds.boolean || kinds.null ||
                           kinds.object || kinds.array);
}

}  // namespace

ToolSet::ToolSet(const Json& tools) {
  for (const Json& tool : tools) {
    const Json* function = Member(tool, "function");
    if (function == nullptr) function = &tool;
    const Json* name = Member(*function, "name");
    if (name == nullptr || !name->is_string()) continue;
    const auto [entry, is_new] =
        functions_.try_emplace(name->get_ref<const std::string&>());
    const Json* schema = Member(*function, "parameters");
    const Json* properties =
        schema != nullptr ? Member(*schema, "properties") : nullptr;
    if (!is_new || properties == nullptr || !properties->is_object()) continue;
    for (const auto& [parameter, type] : properties->items()) {
      entry->second.try_emplace(parameter, KindsOfSchema(type));
    }
  }
}

ValueKinds ToolSet::KindsOf(std::string_view function,
                            std::string_view parameter) const {
  const auto of_function = functions_.find(function);
  if (of_function == functions_.end()) return kAllKinds;
  const auto found = of_function->second.find(parameter);
  return found != of_function->second.end() ? found->second : kAllKinds;
}

std::string JsonString(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string ParameterJson(std::string_view text, const ValueKinds& kinds) {
  if (OnlyString(kinds)) return JsonString(text);
  const absl::string_view stripped =
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  const std::string_view json =
      JsonOfPython({stripped.data(), stripped.size()});
  const absl::StatusOr<nlohmann::json> value = ParseJson(json, kMaxCallDepth);
  if (!value.ok()) return JsonString(text);
  const bool as_json = kinds.string ? Allows(kinds, *value) : true;
  return as_json ? std::string(json) : JsonString(text);
}

}  // namespace bole
