// Filters: what may stand after `|`.
#ifndef BOLE_COMMON_CHAT_FILTERS_H_
#define BOLE_COMMON_CHAT_FILTERS_H_

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/arguments.h"
#include "common/chat/budget.h"
#include "common/chat/value.h"

namespace bole::jinja {

enum class Filter {
  kDefault,
  kFirst,
  kItems,
  kJoin,
  kLast,
  kLength,
  kList,
  kSafe,
  kString,
  kToJson,
  kTrim,
};

// The filter of that name, if it is supported.
std::optional<Filter> FindFilter(std::string_view name);

// operand | filter(arguments). `safe` is `string`, because nothing is escaped;
// `tojson` is json.dumps with ensure_ascii off and takes no arguments.
absl::StatusOr<Value> ApplyFilter(Filter filter, const Value& operand,
                                  const CallArguments& arguments,
                                  Budget* budget);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_FILTERS_H_
