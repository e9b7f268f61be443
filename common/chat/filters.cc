#include "common/chat/filters.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/chat/access.h"
#include "common/chat/methods.h"
#include "common/chat/python_format.h"
#include "common/chat/python_text.h"
#include "common/status_macros.h"

namespace bole::jinja {
namespace {

constexpr std::string_view kDefaultParameters[] = {"default_value", "boolean"};
constexpr std::string_view kJoinParameters[] = {"d"};
constexpr std::string_view kTrimParameters[] = {"chars"};

struct NamedFilter {
  std::string_view name;
  Filter filter;
  std::span<const std::string_view> parameters;
};

constexpr NamedFilter kFilters[] = {
    {"count", Filter::kLength, {}},
    {"d", Filter::kDefault, kDefaultParameters},
    {"default", Filter::kDefault, kDefaultParameters},
    {"first", Filter::kFirst, {}},
    {"items", Filter::kItems, {}},
    {"join", Filter::kJoin, kJoinParameters},
    {"last", Filter::kLast, {}},
    {"length", Filter::kLength, {}},
    {"list", Filter::kList, {}},
    {"safe", Filter::kSafe, {}},
    {"string", Filter::kString, {}},
    {"tojson", Filter::kToJson, {}},
    {"trim", Filter::kTrim, kTrimParameters},
};

using Bound = std::vector<std::optional<Value>>;

// A filter's first name that is not an abbreviation, and its parameters.
const NamedFilter& Entry(Filter filter) {
  const NamedFilter* found = nullptr;
  for (const NamedFilter& named : kFilters) {
    if (named.filter == filter) found = &named;
  }
  return *found;
}

absl::StatusOr<Value> Length(const Value& value) {
  size_t length = 0;
  if (const std::string* text = value.AsString()) {
    length = NumCharacters(*text);
  } else if (const List* list = value.AsList()) {
    length = list->items.size();
  } else if (const Dict* dict = value.AsDict()) {
    length = dict->items.size();
  } else if (const Loop* loop = value.AsLoop()) {
    length = loop->items->items.size();
  } else if (!value.Is<Undefined>()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "object of type '", std::string(value.TypeName()), "' has no len()"));
  }
  return Value::Int(static_cast<int64_t>(length));
}

absl::StatusOr<Value> FirstOrLast(Filter filter, const Value& value) {
  BOLE_ASSIGN_OR_RETURN(const auto list, Iterate(value));
  if (list->items.empty()) {
    return Value::MakeUndefined("an empty sequence has no first or last item");
  }
  return filter == Filter::kFirst ? list->items.front() : list->items.back();
}

absl::StatusOr<Value> Items(const Value& value) {
  if (value.Is<Undefined>()) return Value::MakeList({});
  if (const Dict* dict = value.AsDict()) return ItemsOf(*dict);
  return absl::InvalidArgumentError("Can only get item pairs from a mapping.");
}

absl::StatusOr<Value> Join(const Value& value,
                           const std::optional<Value>& separator,
                           Budget* budget) {
  BOLE_ASSIGN_OR_RETURN(const auto list, Iterate(value));
  BOLE_ASSIGN_OR_RETURN(const std::string between,
                        ToStr(separator.value_or(Value::Str("")), budget));
  std::string joined;
  for (size_t i = 0; i < list->items.size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(const std::string item,
                          ToStr(list->items[i], budget));
    if (i > 0) joined += between;
    joined += item;
    if (joined.size() > kMaxStringBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a string of more than ", kMaxStringBytes, " bytes"));
    }
    BOLE_RETURN_IF_ERROR(budget->ChargeBytes(between.size() + item.size()));
  }
  return Value::Str(std::move(joined));
}

absl::StatusOr<Value> Trim(const Value& value,
                           const std::optional<Value>& chars, Budget* budget) {
  BOLE_ASSIGN_OR_RETURN(std::string text, ToStr(value, budget));
  CallArguments arguments;
  if (chars) arguments.positional.push_back(*chars);
  return CallMethod({.receiver = Value::Str(std::move(text)), .name = "strip"},
                    arguments);
}

// `value` unless it is undefined, or with `boolean` also unless it is false.
Value Default(const Value& value, const Bound& bound) {
  const bool also_false = bound[1] && bound[1]->Truthy();
  const bool keeps = also_false ? value.Truthy() : !value.Is<Undefined>();
  return keeps ? value : bound[0].value_or(Value::Str(""));
}

absl::StatusOr<Value> AsText(absl::StatusOr<std::string> text) {
  if (!text.ok()) return text.status();
  return Value::Str(*std::move(text));
}

}  // namespace

std::optional<Filter> FindFilter(std::string_view name) {
  for (const NamedFilter& named : kFilters) {
    if (named.name == name) return named.filter;
  }
  return std::nullopt;
}

absl::StatusOr<Value> ApplyFilter(Filter filter, const Value& operand,
                                  const CallArguments& arguments,
                                  Budget* budget) {
  const NamedFilter& entry = Entry(filter);
  const absl::StatusOr<Bound> arguments_or =
      BindArguments(entry.name, entry.parameters, arguments);
  if (!arguments_or.ok()) {
    return absl::UnimplementedError(
        absl::StrCat("filter ", arguments_or.status().message()));
  }
  const Bound& bound = *arguments_or;
  switch (filter) {
    case Filter::kDefault:
      return Default(operand, bound);
    case Filter::kFirst:
    case Filter::kLast:
      return FirstOrLast(filter, operand);
    case Filter::kItems:
      return Items(operand);
    case Filter::kJoin:
      return Join(operand, bound[0], budget);
    case Filter::kLength:
      return Length(operand);
    case Filter::kList: {
      BOLE_ASSIGN_OR_RETURN(const auto list, Iterate(operand));
      return Value::MakeList(list->items);
    }
    case Filter::kSafe:
    case Filter::kString:
      return AsText(ToStr(operand, budget));
    case Filter::kToJson:
      return AsText(ToJson(operand, budget));
    case Filter::kTrim:
      return Trim(operand, bound[0], budget);
  }
  return absl::InternalError("unknown filter");
}

}  // namespace bole::jinja
