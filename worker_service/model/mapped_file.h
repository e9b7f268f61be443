// A file's bytes, mapped read-only.
#ifndef BOLE_WORKER_SERVICE_MODEL_MAPPED_FILE_H_
#define BOLE_WORKER_SERVICE_MODEL_MAPPED_FILE_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bole {

// Owns a mapping of a whole regular file. Immutable, so threads may share it.
// The file must not shrink while it is mapped: a read past its new end is
// SIGBUS.
class MappedFile {
 public:
  // NOT_FOUND: there is no such file. INVALID_ARGUMENT: it is empty or not a
  // regular file, for example a directory. Otherwise the error of the system
  // call. Every message starts with `path`.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Never empty, and starts at a page boundary. The bytes stay valid when this
  // object is moved.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;  // Empty once moved from.
};

// `status` with "`where`: " before its message.
absl::Status Annotate(const absl::Status& status, std::string_view where);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_MAPPED_FILE_H_
