#include "worker_service/model/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using nlohmann::json;

// The limit that the format sets for the header.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
// The nesting of the header object, a tensor object and its shape.
constexpr int kMaxHeaderDepth = 3;
constexpr size_t kLengthBytes = 8;

// The two parts of a file after its length field.
struct Parts {
  std::string_view header;
  std::span<const std::byte> data;
};

absl::StatusOr<Parts> Split(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", file.size(), " bytes, expected at least ",
                     kLengthBytes, " for the header's length"));
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  file = file.subspan(kLengthBytes);
  if (length > kMaxHeaderBytes || length > file.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header's length is ", length, ", but ", file.size(),
                     " bytes follow and ", kMaxHeaderBytes, " are allowed"));
  }
  return Parts{.header = {reinterpret_cast<const char*>(file.data()), length},
               .data = file.subspan(length)};
}

absl::Status TensorError(const std::string& name, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", QuotedName(name), ": ", std::string(what)));
}

// The member as a list of non-negative integers; nullopt if it is anything
// else.
std::optional<std::vector<int64_t>> NaturalNumbers(const json& object,
                                                   const char* key) {
  const auto member = object.find(key);
  if (member == object.end() || !member->is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const json& element : *member) {
    // The parser stores every non-negative number as unsigned.
    if (!element.is_number_unsigned() ||
        element.get<uint64_t>() > uint64_t{INT64_MAX}) {
      return std::nullopt;
    }
    numbers.push_back(element.get<int64_t>());
  }
  return numbers;
}

absl::StatusOr<StoredDtype> ReadDtype(const std::string& name,
                                      const json& entry) {
  const auto member = entry.find("dtype");
  if (member == entry.end() || !member->is_string()) {
    return TensorError(name, "dtype is missing or not a string");
  }
  const std::string& text = member->get_ref<const std::string&>();
  const std::optional<StoredDtype> dtype = DtypeFromName(text);
  if (!dtype) {
    return TensorError(name, absl::StrCat("unknown dtype ", QuotedName(text)));
  }
  return *dtype;
}

// Returns nullopt on overflow.
std::optional<int64_t> ByteSize(std::span<const int64_t> shape,
                                StoredDtype dtype) {
  int64_t size = DtypeBytes(dtype);
  for (const int64_t dimension : shape) {
    if (__builtin_mul_overflow(size, dimension, &size)) return std::nullopt;
  }
  return size;
}

absl::StatusOr<TensorView> ReadTensor(const std::string& name,
                                      const json& entry,
                                      std::span<const std::byte> data) {
  if (!entry.is_object()) return TensorError(name, "is not a JSON object");
  BOLE_ASSIGN_OR_RETURN(const StoredDtype dtype, ReadDtype(name, entry));
  const auto shape = NaturalNumbers(entry, "shape");
  if (!shape) {
    return TensorError(name, "shape is not a list of integers >= 0");
  }
  const auto offsets = NaturalNumbers(entry, "data_offsets");
  if (!offsets || offsets->size() != 2) {
    return TensorError(name, "data_offsets is not a pair of integers >= 0");
  }
  const int64_t begin = (*offsets)[0];
  const int64_t end = (*offsets)[1];
  if (begin > end || static_cast<uint64_t>(end) > data.size()) {
    return TensorError(
        name, absl::StrCat("data_offsets [", begin, ", ", end,
                           "] are not a range in ", data.size(), " bytes"));
  }
  const std::optional<int64_t> size = ByteSize(*shape, dtype);
  if (!size || *size != end - begin) {
    return TensorError(name,
                       absl::StrCat("shape ", ShapeString(*shape), " of ",
                                    std::string(DtypeName(dtype)), " needs ",
                                    size ? absl::StrCat(*size) : "too many",
                                    " bytes, data_offsets hold ", end - begin));
  }
  return TensorView{.name = name,
                    .dtype = dtype,
                    .shape = *shape,
                    .data = data.subspan(static_cast<size_t>(begin),
                                         static_cast<size_t>(end - begin))};
}

absl::Status CheckNoOverlap(const TensorMap& tensors) {
  std::vector<const TensorView*> by_offset;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.data.empty()) by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const TensorView* a, const TensorView* b) {
              return a->data.data() < b->data.data();
            });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const TensorView& before = *by_offset[i - 1];
    const TensorView& after = *by_offset[i];
    if (before.data.data() + before.data.size() > after.data.data()) {
      return TensorError(after.name, absl::StrCat("shares bytes with tensor ",
                                                  QuotedName(before.name)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TensorMap> ParseSafetensors(std::span<const std::byte> file) {
  BOLE_ASSIGN_OR_RETURN(const Parts parts, Split(file));
  absl::StatusOr<json> header = ParseJson(parts.header, kMaxHeaderDepth);
  if (!header.ok()) return Annotate(header.status(), "header");
  if (!header->is_object()) {
    return absl::InvalidArgumentError("the header is not a JSON object");
  }
  TensorMap tensors;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;  // Free text about the file.
    BOLE_ASSIGN_OR_RETURN(TensorView tensor,
                          ReadTensor(name, entry, parts.data));
    tensors.emplace(name, std::move(tensor));
  }
  BOLE_RETURN_IF_ERROR(CheckNoOverlap(tensors));
  return tensors;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<TensorMap> tensors = ParseSafetensors(file.bytes());
  if (!tensors.ok()) return Annotate(tensors.status(), path);
  return SafetensorsFile(std::move(file), *std::move(tensors));
}

}  // namespace bole
