// Methods of strings and mappings, as Python has them.
#ifndef BOLE_COMMON_CHAT_METHODS_H_
#define BOLE_COMMON_CHAT_METHODS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/arguments.h"
#include "common/chat/value.h"

namespace bole::jinja {

// Whether `object` has a method `name`. UNIMPLEMENTED if it has one in Python
// that CallMethod does not know.
absl::StatusOr<bool> HasMethod(const Value& object, std::string_view name);

// Calls a method: startswith, endswith, strip, lstrip, rstrip, split of
// strings; items, keys, values, get of mappings.
absl::StatusOr<Value> CallMethod(const Method& method,
                                 const CallArguments& arguments);

// The (key, value) pairs of a mapping.
absl::StatusOr<Value> ItemsOf(const Dict& dict);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_METHODS_H_
