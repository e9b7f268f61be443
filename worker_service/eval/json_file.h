// Reads and writes the JSON files that the command line names.
#ifndef BOLE_WORKER_SERVICE_EVAL_JSON_FILE_H_
#define BOLE_WORKER_SERVICE_EVAL_JSON_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/packed_forest.h"
#include "nlohmann/json_fwd.hpp"

namespace bole {

// Errors of all of these start with the path and name the value at fault.

// An array of token ids.
absl::StatusOr<std::vector<int32_t>> ReadIds(const std::string& path);

// {"tokens": [...], "parents": [...]}.
absl::StatusOr<NodeList> ReadTree(const std::string& path);

// An array of strings.
absl::StatusOr<std::vector<std::string>> ReadPrompts(const std::string& path);

// Replaces the file atomically: even after an error `path` has either its old
// content or all of the new.
absl::Status WriteJson(const std::string& path,
                       const nlohmann::ordered_json& value);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_JSON_FILE_H_
