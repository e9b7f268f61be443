// What a filter, method, macro or function is called with.
#ifndef BOLE_COMMON_CHAT_ARGUMENTS_H_
#define BOLE_COMMON_CHAT_ARGUMENTS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat/value.h"

namespace bole::jinja {

struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments in the order of `parameters`, none where one was not given.
// INVALID_ARGUMENT, naming `callee`, for too many, an unknown name, or a
// parameter given twice.
absl::StatusOr<std::vector<std::optional<Value>>> BindArguments(
    std::string_view callee, std::span<const std::string_view> parameters,
    const CallArguments& arguments);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_ARGUMENTS_H_
