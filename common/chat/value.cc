#include "common/chat/value.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/chat/budget.h"
#include "common/status_macros.h"
#include "common/tokenizer/utf8.h"
#include "nlohmann/json.hpp"

namespace bole::jinja {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
const T* GetPointee(const Value::Variant& variant) {
  const auto* pointer = std::get_if<std::shared_ptr<const T>>(&variant);
  return pointer == nullptr ? nullptr : pointer->get();
}

absl::Status CheckSize(size_t num_items, int depth) {
  if (num_items > kMaxListItems) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a list of ", num_items, " items; the limit is ", kMaxListItems));
  }
  if (depth > kMaxValueDepth) {
    return absl::ResourceExhaustedError(
        absl::StrCat("values nested deeper than ", kMaxValueDepth));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Convert(const Json& json, int depth);

absl::StatusOr<Value> ConvertContainer(const Json& json, int depth) {
  if (depth == kMaxValueDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON nested deeper than ", kMaxValueDepth));
  }
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const Json& item : json) {
      BOLE_ASSIGN_OR_RETURN(Value value, Convert(item, depth + 1));
      items.push_back(std::move(value));
    }
    return Value::MakeList(std::move(items));
  }
  std::vector<std::pair<std::string, Value>> items;
  items.reserve(json.size());
  for (const auto& [key, item] : json.items()) {
    BOLE_ASSIGN_OR_RETURN(Value value, Convert(item, depth + 1));
    items.emplace_back(ReplaceInvalidUtf8(key), std::move(value));
  }
  return Value::MakeDict(std::move(items));
}

absl::StatusOr<Value> Convert(const Json& json, int depth) {
  switch (json.type()) {
    case Json::value_t::null:
      return Value();
    case Json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::Int(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto value = json.get<uint64_t>();
      if (value > static_cast<uint64_t>(INT64_MAX)) {
        return Value(BigUnsigned{value});
      }
      return Value::Int(static_cast<int64_t>(value));
    }
    case Json::value_t::number_float:
      return Value::Float(json.get<double>());
    case Json::value_t::string:
      return Value::Str(ReplaceInvalidUtf8(json.get_ref<const std::string&>()));
    case Json::value_t::array:
    case Json::value_t::object:
      return ConvertContainer(json, depth);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a JSON value of type ", json.type_name()));
  }
}

}  // namespace

absl::StatusOr<Value> Value::MakeList(std::vector<Value> items, bool is_tuple) {
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, item.Depth() + 1);
  BOLE_RETURN_IF_ERROR(CheckSize(items.size(), depth));
  return Value(std::make_shared<const List>(
      List{.items = std::move(items), .is_tuple = is_tuple, .depth = depth}));
}

absl::StatusOr<Value> Value::MakeDict(
    std::vector<std::pair<std::string, Value>> items) {
  Dict dict;
  dict.index.reserve(items.size());
  for (std::pair<std::string, Value>& item : items) {
    dict.depth = std::max(dict.depth, item.second.Depth() + 1);
    const auto [entry, is_new] =
        dict.index.try_emplace(item.first, dict.items.size());
    if (is_new) {
      dict.items.push_back(std::move(item));
    } else {
      dict.items[entry->second].second = std::move(item.second);
    }
  }
  BOLE_RETURN_IF_ERROR(CheckSize(dict.items.size(), dict.depth));
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

absl::StatusOr<Value> Value::FromJson(const Json& json) {
  return Convert(json, 0);
}

const std::string* Value::AsString() const {
  return GetPointee<std::string>(variant_);
}
const List* Value::AsList() const { return GetPointee<List>(variant_); }
const Dict* Value::AsDict() const { return GetPointee<Dict>(variant_); }
const Loop* Value::AsLoop() const { return GetPointee<Loop>(variant_); }

int64_t Value::IntOr(int64_t other) const {
  if (const bool* flag = std::get_if<bool>(&variant_)) return *flag ? 1 : 0;
  const int64_t* number = std::get_if<int64_t>(&variant_);
  return number == nullptr ? other : *number;
}

bool Value::Truthy() const {
  if (Is<Undefined>() || Is<None>()) return false;
  if (Is<bool>() || Is<int64_t>()) return IntOr(0) != 0;
  if (const double* number = std::get_if<double>(&variant_)) {
    return *number != 0;
  }
  if (const std::string* text = AsString()) return !text->empty();
  if (const List* list = AsList()) return !list->items.empty();
  if (const Dict* dict = AsDict()) return !dict->items.empty();
  return true;
}

std::string_view Value::TypeName() const {
  constexpr std::string_view kNames[] = {
      "Undefined", "NoneType",  "bool",  "int",     "int",
      "float",     "str",       "list",  "dict",    "LoopContext",
      "method",    "Namespace", "Macro", "function"};
  static_assert(std::size(kNames) == std::variant_size_v<Variant>);
  const List* list = AsList();
  return list != nullptr && list->is_tuple ? "tuple" : kNames[variant_.index()];
}

size_t Value::ShallowBytes() const {
  if (const std::string* text = AsString()) return text->size();
  if (const List* list = AsList()) return list->items.size() * sizeof(Value);
  if (const Dict* dict = AsDict()) {
    return dict->items.size() * (sizeof(Value) + 2 * sizeof(std::string));
  }
  return 0;
}

int Value::Depth() const {
  if (const List* list = AsList()) return list->depth;
  if (const Dict* dict = AsDict()) return dict->depth;
  if (const Loop* loop = AsLoop()) return loop->items->depth + 1;
  const Method* method = GetPointee<Method>(variant_);
  return method == nullptr ? 0 : method->receiver.Depth() + 1;
}

const Value* Dict::Find(std::string_view key) const {
  const auto entry = index.find(absl::string_view(key.data(), key.size()));
  return entry == index.end() ? nullptr : &items[entry->second].second;
}

}  // namespace bole::jinja
