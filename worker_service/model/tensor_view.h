// Tensors as a file stores them: element type, shape, bytes.
#ifndef BOLE_WORKER_SERVICE_MODEL_TENSOR_VIEW_H_
#define BOLE_WORKER_SERVICE_MODEL_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/matrix_source.h"

namespace bole {

// Element types of the safetensors format whose size is whole bytes.
enum class StoredDtype {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
};

// The format's spelling, such as "BF16".
std::string_view DtypeName(StoredDtype dtype);
std::optional<StoredDtype> DtypeFromName(std::string_view name);
int64_t DtypeBytes(StoredDtype dtype);

// A view into bytes that someone else owns, usually a mapped file; it is valid
// as long as they are. Row-major and little-endian; `data` may start at any
// address. A value: immutable through this type, so threads may share it.
//
// INVARIANT of views that this library makes: data.size() is the product of
// `shape` times DtypeBytes(dtype).
struct TensorView {
  std::string name;  // In the file; a part keeps the name of the whole tensor.
  StoredDtype dtype = StoredDtype::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;

  int64_t num_elements() const {
    return static_cast<int64_t>(data.size()) / DtypeBytes(dtype);
  }
};

using TensorMap = std::map<std::string, TensorView, std::less<>>;

// "[704, 256]", for messages.
std::string ShapeString(std::span<const int64_t> shape);

// A tensor's name, quoted, shortened and escaped for a message, since it may
// come from a hostile file.
std::string QuotedName(std::string_view name);

// Rows [begin, end) of the first dimension: a shape [n, ...] becomes
// [end - begin, ...].
// REQUIRES: 0 <= begin <= end <= shape[0].
TensorView Rows(const TensorView& tensor, int64_t begin, int64_t end);

// Entry `index` of the first dimension: a shape [n, ...] becomes [...].
// REQUIRES: 0 <= index < shape[0].
TensorView Entry(const TensorView& tensor, int64_t index);

// The type as which a backend reads the elements, if they are F32, BF16 or F16.
// INVALID_ARGUMENT, naming the tensor: another element type.
absl::StatusOr<SourceType> SourceTypeOf(const TensorView& tensor);

// Converts every element from F32, BF16 or F16 to float32, exactly. NaN stays
// NaN.
// INVALID_ARGUMENT: another element type, or out.size() is not num_elements().
absl::Status ConvertToFloat(const TensorView& tensor, std::span<float> out);

// Converts every element from BOOL, U8, I8, U16, I16, U32, I32 or I64.
// INVALID_ARGUMENT: another element type, or out.size() is not num_elements().
absl::Status ConvertToInt64(const TensorView& tensor, std::span<int64_t> out);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_TENSOR_VIEW_H_
