// Reading of whole files that belong to a checkpoint.
#ifndef BOLE_COMMON_TOKENIZER_READ_FILE_H_
#define BOLE_COMMON_TOKENIZER_READ_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace bole {

// The bytes of the regular file at `path`.
//
//   NOT_FOUND         there is none.
//   INVALID_ARGUMENT  it is longer than `max_bytes`, or not a regular file.
//   UNAVAILABLE       it cannot be read.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_READ_FILE_H_
