// Parses JSON text from untrusted sources.
#ifndef BOLE_COMMON_JSON_H_
#define BOLE_COMMON_JSON_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace bole {

// The document in `text`. Containers may nest `max_depth` deep: 0 allows only a
// scalar, 1 an object or array of scalars. No exception leaves this function,
// and neither time nor stack depends on anything but the length of `text`.
//
// INVALID_ARGUMENT, with line and column where there are any: not JSON (NaN,
// comments and trailing commas included), not UTF-8, a number that overflows a
// double, nested too deep, or a key twice in one object. The JSON standard
// leaves the last case open, and taking either value would hide the other.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, int max_depth);

}  // namespace bole

#endif  // BOLE_COMMON_JSON_H_
