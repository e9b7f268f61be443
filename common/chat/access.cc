#include "common/chat/access.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/chat/budget.h"
#include "common/chat/methods.h"
#include "common/chat/python_text.h"
#include "common/status_macros.h"

namespace bole::jinja {
namespace {

std::string TypeOf(const Value& value) { return std::string(value.TypeName()); }

absl::Status IsUndefinedError(const Value& value) {
  return absl::InvalidArgumentError(*std::get<Undefined>(value.variant()).why);
}

Value NoAttribute(const Value& object, std::string_view name) {
  return Value::MakeUndefined(absl::StrCat("'", TypeOf(object),
                                           " object' has no attribute '",
                                           std::string(name), "'"));
}

// loop.name; none if there is no such attribute.
std::optional<Value> LoopAttribute(const Loop& loop, std::string_view name) {
  const auto count = [](size_t n) {
    return Value::Int(static_cast<int64_t>(n));
  };
  const std::vector<Value>& items = loop.items->items;
  const size_t i = loop.index0;
  if (name == "index0") return count(i);
  if (name == "index") return count(i + 1);
  if (name == "revindex0") return count(items.size() - i - 1);
  if (name == "revindex") return count(items.size() - i);
  if (name == "length") return count(items.size());
  if (name == "first") return Value::Bool(i == 0);
  if (name == "last") return Value::Bool(i + 1 == items.size());
  if (name == "previtem") {
    if (i > 0) return items[i - 1];
    return Value::MakeUndefined("there is no previous item");
  }
  if (name == "nextitem") {
    if (i + 1 < items.size()) return items[i + 1];
    return Value::MakeUndefined("there is no next item");
  }
  return std::nullopt;
}

// Member `name` of a namespace or loop; none for other values.
std::optional<Value> MemberOf(const Value& object, const std::string& name) {
  if (const Loop* loop = object.AsLoop()) return LoopAttribute(*loop, name);
  Namespace* const* space = std::get_if<Namespace*>(&object.variant());
  if (space == nullptr) return std::nullopt;
  const auto member = (*space)->members.find(name);
  if (member == (*space)->members.end()) return std::nullopt;
  return member->second;
}

// The item at a position that may count from the end.
const Value* ItemAt(const std::vector<Value>& items, int64_t position) {
  const auto size = static_cast<int64_t>(items.size());
  if (position < 0) position += size;
  return position < 0 || position >= size ? nullptr : &items[position];
}

// The characters of a string as values.
absl::StatusOr<std::vector<Value>> CharacterValues(std::string_view text) {
  if (NumCharacters(text) > kMaxListItems) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a list of the characters of ", text.size(), " bytes"));
  }
  std::vector<Value> values;
  for (const std::string_view character : Characters(text)) {
    values.push_back(Value::Str(std::string(character)));
  }
  return values;
}

// A slice with every bound resolved: start, start + step, ... before stop.
struct Range {
  int64_t start;
  int64_t stop;
  int64_t step;
};

// The range that a slice of `size` items takes.
Range Resolve(const SliceBounds& bounds, int64_t size) {
  const int64_t step = bounds.step.value_or(1);
  // A backward slice ends before position 0, that is at -1.
  const int64_t lowest = step > 0 ? 0 : -1;
  const int64_t highest = step > 0 ? size : size - 1;
  const auto resolve = [&](std::optional<int64_t> bound, int64_t if_absent) {
    if (!bound) return if_absent;
    return std::clamp(*bound < 0 ? *bound + size : *bound, lowest, highest);
  };
  return {.start = resolve(bounds.start, step > 0 ? lowest : highest),
          .stop = resolve(bounds.stop, step > 0 ? highest : lowest),
          .step = step};
}

template <typename T>
std::vector<T> Take(const std::vector<T>& items, const Range& range) {
  std::vector<T> taken;
  int64_t i = range.start;
  while (range.step > 0 ? i < range.stop : i > range.stop) {
    taken.push_back(items[i]);
    if (__builtin_add_overflow(i, range.step, &i)) break;
  }
  return taken;
}

Value SliceOfString(std::string_view text, const SliceBounds& bounds) {
  const Range range =
      Resolve(bounds, static_cast<int64_t>(NumCharacters(text)));
  if (range.step != 1) {
    std::string slice;
    for (const std::string_view character : Take(Characters(text), range)) {
      slice += character;
    }
    return Value::Str(std::move(slice));
  }
  if (range.start >= range.stop) return Value::Str("");
  const size_t begin = OffsetOfCharacter(text, range.start);
  const size_t end = OffsetOfCharacter(text, range.stop);
  return Value::Str(std::string(text.substr(begin, end - begin)));
}

// The character at a position that may count from the end.
std::optional<Value> CharacterAt(std::string_view text, int64_t position) {
  const auto size = static_cast<int64_t>(NumCharacters(text));
  if (position < 0) position += size;
  if (position < 0 || position >= size) return std::nullopt;
  return SliceOfString(
      text, {.start = position, .stop = position + 1, .step = std::nullopt});
}

}  // namespace

absl::StatusOr<Value> GetAttribute(const Value& object,
                                   const std::string& name) {
  if (object.Is<Undefined>()) return IsUndefinedError(object);
  if (std::optional<Value> member = MemberOf(object, name)) return *member;
  BOLE_ASSIGN_OR_RETURN(const bool is_method, HasMethod(object, name));
  if (is_method) {
    return Value(std::make_shared<const Method>(
        Method{.receiver = object, .name = name}));
  }
  const Dict* dict = object.AsDict();
  const Value* item = dict == nullptr ? nullptr : dict->Find(name);
  return item == nullptr ? NoAttribute(object, name) : *item;
}

absl::StatusOr<Value> GetItem(const Value& object, const Value& key) {
  if (object.Is<Undefined>()) return IsUndefinedError(object);
  if (const std::string* name = key.AsString()) {
    const Dict* dict = object.AsDict();
    const Value* item = dict == nullptr ? nullptr : dict->Find(*name);
    return item == nullptr ? GetAttribute(object, *name) : *item;
  }
  if (key.Is<int64_t>() || key.Is<bool>()) {
    const int64_t position = key.IntOr(0);
    if (const List* list = object.AsList()) {
      const Value* item = ItemAt(list->items, position);
      if (item != nullptr) return *item;
    }
    if (const std::string* text = object.AsString()) {
      if (const auto character = CharacterAt(*text, position)) {
        return *character;
      }
    }
    return Value::MakeUndefined(absl::StrCat(
        "'", TypeOf(object), " object' has no element ", position));
  }
  return Value::MakeUndefined(absl::StrCat(
      "'", TypeOf(object), " object' has no element of type ", TypeOf(key)));
}

absl::StatusOr<Value> GetSlice(const Value& object, const SliceBounds& bounds) {
  if (object.Is<Undefined>()) return IsUndefinedError(object);
  if (bounds.step == 0) {
    return absl::InvalidArgumentError("slice step cannot be zero");
  }
  if (const List* list = object.AsList()) {
    const auto size = static_cast<int64_t>(list->items.size());
    return Value::MakeList(Take(list->items, Resolve(bounds, size)),
                           list->is_tuple);
  }
  if (const std::string* text = object.AsString()) {
    return SliceOfString(*text, bounds);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", TypeOf(object), "' cannot be sliced"));
}

absl::StatusOr<std::shared_ptr<const List>> Iterate(const Value& value) {
  if (const auto* list =
          std::get_if<std::shared_ptr<const List>>(&value.variant())) {
    return *list;
  }
  std::vector<Value> items;
  if (const Dict* dict = value.AsDict()) {
    for (const auto& member : dict->items) {
      items.push_back(Value::Str(member.first));
    }
  } else if (const std::string* text = value.AsString()) {
    BOLE_ASSIGN_OR_RETURN(items, CharacterValues(*text));
  } else if (!value.Is<Undefined>()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", TypeOf(value), "' object is not iterable"));
  }
  return std::make_shared<const List>(List{.items = std::move(items)});
}

}  // namespace bole::jinja
