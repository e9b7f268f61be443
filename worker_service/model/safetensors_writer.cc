#include "worker_service/model/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

constexpr size_t kAlignment = 8;

// A tensor under the name it is written with.
struct NamedTensor {
  std::string_view name;
  const TensorView* tensor;
};

// Sorts by descending element size, then by name, so that every tensor is
// aligned to its elements without padding.
std::vector<NamedTensor> InFileOrder(const TensorMap& tensors) {
  std::vector<NamedTensor> order;
  for (const auto& [name, tensor] : tensors) order.push_back({name, &tensor});
  std::stable_sort(order.begin(), order.end(),
                   [](const NamedTensor& a, const NamedTensor& b) {
                     return DtypeBytes(a.tensor->dtype) >
                            DtypeBytes(b.tensor->dtype);
                   });
  return order;
}

absl::Status CheckSize(std::string_view name, const TensorView& tensor) {
  int64_t bytes = DtypeBytes(tensor.dtype);
  bool fits = true;
  for (const int64_t dimension : tensor.shape) {
    fits = fits && dimension >= 0 &&
           !__builtin_mul_overflow(bytes, dimension, &bytes);
  }
  if (fits && static_cast<size_t>(bytes) == tensor.data.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", QuotedName(name), " of shape ", ShapeString(tensor.shape),
      " has ", tensor.data.size(), " bytes of data"));
}

// The length field and the header, padded so that the data is aligned.
absl::StatusOr<std::string> Header(std::span<const NamedTensor> order) {
  nlohmann::json header = nlohmann::json::object();
  size_t offset = 0;
  for (const auto& [name, tensor] : order) {
    if (name == "__metadata__") {
      return absl::InvalidArgumentError("a tensor is named __metadata__");
    }
    BOLE_RETURN_IF_ERROR(CheckSize(name, *tensor));
    const size_t end = offset + tensor->data.size();
    header[std::string(name)] = {{"dtype", DtypeName(tensor->dtype)},
                                 {"shape", tensor->shape},
                                 {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError("a tensor's name is not UTF-8");
  }
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), sizeof(length));
  return text;
}

absl::Status WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteContent(int fd, std::string_view header,
                          std::span<const NamedTensor> order) {
  BOLE_RETURN_IF_ERROR(
      WriteAll(fd, std::as_bytes(std::span(header.data(), header.size()))));
  for (const auto& [name, tensor] : order) {
    BOLE_RETURN_IF_ERROR(WriteAll(fd, tensor->data));
  }
  if (fsync(fd) != 0) return absl::ErrnoToStatus(errno, "fsync");
  return absl::OkStatus();
}

// A path in the same folder that no other writer uses: the process id tells it
// from those of other processes, the count from those of other threads.
std::string TemporaryPath(const std::string& path) {
  static std::atomic<int> count = 0;
  return absl::StrCat(path, ".", getpid(), ".", count++, ".tmp");
}

}  // namespace

TensorView FloatTensor(std::span<const float> values,
                       std::vector<int64_t> shape) {
  return {.name = "",
          .dtype = StoredDtype::kF32,
          .shape = std::move(shape),
          .data = std::as_bytes(values)};
}

TensorView Int32Tensor(std::span<const int32_t> values,
                       std::vector<int64_t> shape) {
  return {.name = "",
          .dtype = StoredDtype::kI32,
          .shape = std::move(shape),
          .data = std::as_bytes(values)};
}

absl::Status WriteSafetensors(const std::string& path,
                              const TensorMap& tensors) {
  const std::vector<NamedTensor> order = InFileOrder(tensors);
  BOLE_ASSIGN_OR_RETURN(const std::string header, Header(order));
  const std::string temporary = TemporaryPath(path);
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return absl::ErrnoToStatus(errno, temporary);
  absl::Status status = WriteContent(fd, header, order);
  if (close(fd) != 0 && status.ok()) {
    status = absl::ErrnoToStatus(errno, "close");
  }
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, "rename");
  }
  if (status.ok()) return status;
  unlink(temporary.c_str());
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

}  // namespace bole
