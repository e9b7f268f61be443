#include "worker_service/model/tensor_view.h"

#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace bole {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and is read in place");

struct DtypeInfo {
  std::string_view name;
  int64_t bytes;
};

// Indexed by StoredDtype.
constexpr std::array<DtypeInfo, 16> kDtypes = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"F8_E8M0", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"I64", 8},
    {"U64", 8},
    {"F64", 8},
}};
static_assert(kDtypes.size() == static_cast<size_t>(StoredDtype::kF64) + 1);

const DtypeInfo& InfoOf(StoredDtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)];
}

// Reads every element as a Stored. `data` may start at any address.
template <typename Stored>
void WidenAll(std::span<const std::byte> data, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored element;
    std::memcpy(&element, data.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = int64_t{element};
  }
}

absl::Status CheckCount(const TensorView& tensor, size_t count) {
  if (static_cast<size_t>(tensor.num_elements()) == count) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", QuotedName(tensor.name), " has ",
                   tensor.num_elements(), " elements, not ", count));
}

absl::Status DtypeError(const TensorView& tensor, const char* expected) {
  const std::string name(DtypeName(tensor.dtype));
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", QuotedName(tensor.name), " is ", name,
                   ", expected ", expected));
}

// The bytes of one entry of the first dimension. REQUIRES: shape[0] > 0.
size_t EntryBytes(const TensorView& tensor) {
  return tensor.data.size() / static_cast<size_t>(tensor.shape[0]);
}

}  // namespace

std::string_view DtypeName(StoredDtype dtype) { return InfoOf(dtype).name; }

int64_t DtypeBytes(StoredDtype dtype) { return InfoOf(dtype).bytes; }

std::optional<StoredDtype> DtypeFromName(std::string_view name) {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (kDtypes[i].name == name) return static_cast<StoredDtype>(i);
  }
  return std::nullopt;
}

std::string ShapeString(std::span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::string QuotedName(std::string_view name) {
  constexpr size_t kMaxBytes = 128;
  const bool cut = name.size() > kMaxBytes;
  name = name.substr(0, kMaxBytes);
  return absl::StrCat(
      "\"", absl::CHexEscape(absl::string_view(name.data(), name.size())),
      cut ? "...\"" : "\"");
}

TensorView Rows(const TensorView& tensor, int64_t begin, int64_t end) {
  BOLE_CHECK(!tensor.shape.empty() && 0 <= begin && begin <= end &&
             end <= tensor.shape[0]);
  TensorView rows = tensor;
  rows.shape[0] = end - begin;
  if (tensor.shape[0] == 0) return rows;
  const size_t row_bytes = EntryBytes(tensor);
  rows.data = tensor.data.subspan(static_cast<size_t>(begin) * row_bytes,
                                  static_cast<size_t>(end - begin) * row_bytes);
  return rows;
}

TensorView Entry(const TensorView& tensor, int64_t index) {
  TensorView entry = Rows(tensor, index, index + 1);
  entry.shape.erase(entry.shape.begin());
  return entry;
}

absl::StatusOr<SourceType> SourceTypeOf(const TensorView& tensor) {
  switch (tensor.dtype) {
    case StoredDtype::kF32:
      return SourceType::kFloat32;
    case StoredDtype::kBF16:
      return SourceType::kBFloat16;
    case StoredDtype::kF16:
      return SourceType::kFloat16;
    default:
      return DtypeError(tensor, "F32, BF16 or F16");
  }
}

absl::Status ConvertToFloat(const TensorView& tensor, std::span<float> out) {
  if (absl::Status s = CheckCount(tensor, out.size()); !s.ok()) return s;
  BOLE_ASSIGN_OR_RETURN(const SourceType type, SourceTypeOf(tensor));
  Widen(type, tensor.data.data(), out);
  return absl::OkStatus();
}

absl::Status ConvertToInt64(const TensorView& tensor, std::span<int64_t> out) {
  if (absl::Status s = CheckCount(tensor, out.size()); !s.ok()) return s;
  switch (tensor.dtype) {
    case StoredDtype::kBool:
    case StoredDtype::kU8:
      WidenAll<uint8_t>(tensor.data, out);
      return absl::OkStatus();
    case StoredDtype::kI8:
      WidenAll<int8_t>(tensor.data, out);
      return absl::OkStatus();
    case StoredDtype::kU16:
      WidenAll<uint16_t>(tensor.data, out);
      return absl::OkStatus();
    case StoredDtype::kI16:
      WidenAll<int16_t>(tensor.data, out);
      return absl::OkStatus();
    case StoredDtype::kU32:
      WidenAll<uint32_t>(tensor.data, out);
      return absl::OkStatus();
    case StoredDtype::kI32:
      WidenAll<int32_t>(tensor.data, out);
      return absl::OkStatus();
    case StoredDtype::kI64:
      WidenAll<int64_t>(tensor.data, out);
      return absl::OkStatus();
    default:
      return DtypeError(tensor, "an integer type of at most 63 bits");
  }
}

}  // namespace bole
