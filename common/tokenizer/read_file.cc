#include "common/tokenizer/read_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bole {

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t max_bytes) {
  std::error_code error;
  const std::filesystem::file_status status =
      std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  if (!std::filesystem::is_regular_file(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file"));
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", size, " bytes; the limit is ", max_bytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::string bytes(error ? 0 : static_cast<size_t>(size), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (error || !file) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be read"));
  }
  return bytes;
}

}  // namespace bole
