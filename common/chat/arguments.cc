#include "common/chat/arguments.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bole::jinja {

absl::StatusOr<std::vector<std::optional<Value>>> BindArguments(
    std::string_view callee, std::span<const std::string_view> parameters,
    const CallArguments& arguments) {
  if (arguments.positional.size() > parameters.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        std::string(callee), "() takes ", parameters.size(), " arguments, but ",
        arguments.positional.size(), " were given"));
  }
  std::vector<std::optional<Value>> bound(arguments.positional.begin(),
                                          arguments.positional.end());
  bound.resize(parameters.size());
  for (const auto& [name, value] : arguments.named) {
    const auto parameter =
        std::find(parameters.begin(), parameters.end(), name);
    if (parameter == parameters.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          std::string(callee), "() has no parameter '", name, "'"));
    }
    std::optional<Value>& place = bound[parameter - parameters.begin()];
    if (place) {
      return absl::InvalidArgumentError(
          absl::StrCat(std::string(callee), "() got '", name, "' twice"));
    }
    place = value;
  }
  return bound;
}

}  // namespace bole::jinja
