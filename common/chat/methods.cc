#include "common/chat/methods.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/chat/budget.h"
#include "common/chat/python_text.h"
#include "common/status_macros.h"

namespace bole::jinja {
namespace {

constexpr std::string_view kStringMethods[] = {
    "endswith", "lstrip", "rstrip", "split", "startswith", "strip"};
constexpr std::string_view kDictMethods[] = {"get", "items", "keys", "values"};

// Python's other methods. Their names are not attributes that are missing.
constexpr std::string_view kOtherStringMethods[] = {
    "capitalize",   "casefold",  "center",       "count",        "encode",
    "expandtabs",   "find",      "format",       "format_map",   "index",
    "isalnum",      "isalpha",   "isascii",      "isdecimal",    "isdigit",
    "isidentifier", "islower",   "isnumeric",    "isprintable",  "isspace",
    "istitle",      "isupper",   "join",         "ljust",        "lower",
    "maketrans",    "partition", "removeprefix", "removesuffix", "replace",
    "rfind",        "rindex",    "rjust",        "rpartition",   "rsplit",
    "splitlines",   "swapcase",  "title",        "translate",    "upper",
    "zfill"};
constexpr std::string_view kOtherDictMethods[] = {
    "clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kOtherListMethods[] = {
    "append", "clear", "copy",   "count",   "extend", "index",
    "insert", "pop",   "remove", "reverse", "sort"};

// What strip() looks for is compared with each character of the text.
constexpr size_t kMaxStripBytes = 256;

template <size_t kSize>
bool Contains(const std::string_view (&names)[kSize], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

using Bound = std::vector<std::optional<Value>>;

// The string argument of method `name`, none if it is absent or None.
absl::StatusOr<std::optional<std::string_view>> OptionalString(
    std::string_view name, const std::optional<Value>& argument) {
  if (!argument || argument->Is<None>()) return std::nullopt;
  if (const std::string* text = argument->AsString()) return *text;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(name), "() wants a str, not '",
                   std::string(argument->TypeName()), "'"));
}

// startswith or endswith: one string, or a tuple of which one is enough.
absl::StatusOr<Value> HasAffix(std::string_view text, std::string_view name,
                               const std::optional<Value>& affix) {
  const auto matches = [&](std::string_view candidate) {
    return name == "startswith" ? text.starts_with(candidate)
                                : text.ends_with(candidate);
  };
  if (!affix) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(name), "() wants an argument"));
  }
  const List* list = affix->AsList();
  const std::vector<Value> candidates = list != nullptr && list->is_tuple
                                            ? list->items
                                            : std::vector<Value>{*affix};
  for (const Value& candidate : candidates) {
    const std::string* wanted = candidate.AsString();
    if (wanted == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(name), "() wants a str, not '",
                       std::string(candidate.TypeName()), "'"));
    }
    if (matches(*wanted)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

absl::StatusOr<Value> StripMethod(std::string_view text, std::string_view name,
                                  const std::optional<Value>& argument) {
  BOLE_ASSIGN_OR_RETURN(const std::optional<std::string_view> chars,
                        OptionalString(name, argument));
  if (chars && chars->size() > kMaxStripBytes) {
    return absl::UnimplementedError(
        absl::StrCat(std::string(name), "() of ", chars->size(),
                     " bytes; the limit is ", kMaxStripBytes));
  }
  const StripSides sides = {.left = name != "rstrip",
                            .right = name != "lstrip"};
  return Value::Str(std::string(Strip(text, chars, sides)));
}

absl::StatusOr<Value> SplitMethod(std::string_view text, const Bound& bound) {
  BOLE_ASSIGN_OR_RETURN(const std::optional<std::string_view> separator,
                        OptionalString("split", bound[0]));
  if (separator && separator->empty()) {
    return absl::InvalidArgumentError("empty separator");
  }
  int64_t max_splits = bound[1] ? bound[1]->IntOr(-1) : -1;
  // One part more than a list may have is an error below.
  constexpr auto kMost = static_cast<int64_t>(kMaxListItems);
  if (max_splits < 0 || max_splits > kMost) max_splits = kMost;
  std::vector<Value> parts;
  for (const std::string_view part : Split(text, separator, max_splits)) {
    parts.push_back(Value::Str(std::string(part)));
  }
  return Value::MakeList(std::move(parts));
}

absl::StatusOr<Value> CallStringMethod(const std::string& text,
                                       std::string_view name,
                                       const CallArguments& arguments) {
  constexpr std::string_view kSplit[] = {"sep", "maxsplit"};
  constexpr std::string_view kAffix[] = {"prefix"};
  constexpr std::string_view kStrip[] = {"chars"};
  if (name == "split") {
    BOLE_ASSIGN_OR_RETURN(const Bound bound,
                          BindArguments(name, kSplit, arguments));
    return SplitMethod(text, bound);
  }
  if (name == "startswith" || name == "endswith") {
    BOLE_ASSIGN_OR_RETURN(const Bound bound,
                          BindArguments(name, kAffix, arguments));
    return HasAffix(text, name, bound[0]);
  }
  BOLE_ASSIGN_OR_RETURN(const Bound bound,
                        BindArguments(name, kStrip, arguments));
  return StripMethod(text, name, bound[0]);
}

absl::StatusOr<Value> GetMethod(const Dict& dict,
                                const CallArguments& arguments) {
  constexpr std::string_view kParameters[] = {"key", "default"};
  BOLE_ASSIGN_OR_RETURN(const Bound bound,
                        BindArguments("get", kParameters, arguments));
  if (!bound[0]) return absl::InvalidArgumentError("get() wants a key");
  const std::string* key = bound[0]->AsString();
  const Value* item = key == nullptr ? nullptr : dict.Find(*key);
  return item == nullptr ? bound[1].value_or(Value()) : *item;
}

absl::StatusOr<Value> CallDictMethod(const Dict& dict, std::string_view name,
                                     const CallArguments& arguments) {
  if (name == "get") return GetMethod(dict, arguments);
  BOLE_RETURN_IF_ERROR(BindArguments(name, {}, arguments).status());
  if (name == "items") return ItemsOf(dict);
  std::vector<Value> values;
  for (const auto& [key, value] : dict.items) {
    values.push_back(name == "keys" ? Value::Str(key) : value);
  }
  return Value::MakeList(std::move(values));
}

}  // namespace

absl::StatusOr<bool> HasMethod(const Value& object, std::string_view name) {
  bool is_other = false;
  if (object.AsString() != nullptr) {
    if (Contains(kStringMethods, name)) return true;
    is_other = Contains(kOtherStringMethods, name);
  } else if (object.AsDict() != nullptr) {
    if (Contains(kDictMethods, name)) return true;
    is_other = Contains(kOtherDictMethods, name);
  } else if (object.AsList() != nullptr) {
    is_other = Contains(kOtherListMethods, name);
  }
  if (!is_other) return false;
  return absl::UnimplementedError(
      absl::StrCat("the method '", std::string(name), "' of a ",
                   std::string(object.TypeName()), " is not supported"));
}

absl::StatusOr<Value> CallMethod(const Method& method,
                                 const CallArguments& arguments) {
  if (const std::string* text = method.receiver.AsString()) {
    return CallStringMethod(*text, method.name, arguments);
  }
  return CallDictMethod(*method.receiver.AsDict(), method.name, arguments);
}

absl::StatusOr<Value> ItemsOf(const Dict& dict) {
  std::vector<Value> items;
  items.reserve(dict.items.size());
  for (const auto& [key, value] : dict.items) {
    BOLE_ASSIGN_OR_RETURN(Value pair, Value::MakeList({Value::Str(key), value},
                                                      /*is_tuple=*/true));
    items.push_back(std::move(pair));
  }
  return Value::MakeList(std::move(items));
}

}  // namespace bole::jinja
