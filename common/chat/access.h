// Reaching into values: attributes, items, slices, iteration.
#ifndef BOLE_COMMON_CHAT_ACCESS_H_
#define BOLE_COMMON_CHAT_ACCESS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat/value.h"

namespace bole::jinja {

// object.name. A method of a string or mapping comes before a member of that
// name, as in Python. Undefined if there is neither; INVALID_ARGUMENT if
// `object` is itself undefined; UNIMPLEMENTED for Python methods not supported.
absl::StatusOr<Value> GetAttribute(const Value& object,
                                   const std::string& name);

// object[key]. A member comes before a method. Undefined if there is none.
absl::StatusOr<Value> GetItem(const Value& object, const Value& key);

// The bounds of a slice, each none if left out.
struct SliceBounds {
  std::optional<int64_t> start;
  std::optional<int64_t> stop;
  std::optional<int64_t> step;
};

// object[start:stop:step] of a string or list, with Python's meaning of
// negative and absent bounds.
absl::StatusOr<Value> GetSlice(const Value& object, const SliceBounds& bounds);

// What a `for` over `value` iterates over: items, keys, characters.
absl::StatusOr<std::shared_ptr<const List>> Iterate(const Value& value);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_ACCESS_H_
