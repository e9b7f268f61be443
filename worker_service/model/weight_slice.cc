#include "worker_service/model/weight_slice.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace bole {
namespace {

int ColumnsOf(const TensorView& tensor) {
  int64_t columns = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) columns *= tensor.shape[i];
  return static_cast<int>(columns);
}

// The tensor's bytes from element `first` on, as a vector.
TensorView Elements(const TensorView& tensor, int64_t first, int64_t count) {
  const auto bytes = static_cast<size_t>(DtypeBytes(tensor.dtype));
  return {.name = tensor.name,
          .dtype = tensor.dtype,
          .shape = {count},
          .data = tensor.data.subspan(static_cast<size_t>(first) * bytes,
                                      static_cast<size_t>(count) * bytes)};
}

}  // namespace

int TensorCut::num_rows() const {
  int sum = 0;
  for (const IndexRange& range : rows) sum += range.count;
  return sum;
}

TensorCut WholeOf(const TensorView& tensor) {
  BOLE_CHECK(!tensor.shape.empty());
  return {.rows = {{0, static_cast<int>(tensor.shape[0])}},
          .columns = {0, ColumnsOf(tensor)}};
}

absl::Status ConvertToFloat(const WeightSlice& slice, std::span<float> out) {
  const TensorView& tensor = slice.tensor;
  if (static_cast<size_t>(slice.num_elements()) != out.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice of tensor ", QuotedName(tensor.name), " has ",
                     slice.num_elements(), " elements, not ", out.size()));
  }
  const int64_t columns = ColumnsOf(tensor);
  const IndexRange& part = slice.cut.columns;
  BOLE_CHECK(part.first >= 0 && part.end() <= columns);
  for (const IndexRange& rows : slice.cut.rows) {
    BOLE_CHECK(rows.first >= 0 && rows.end() <= tensor.shape[0]);
    // Whole rows lie together in the file.
    const bool is_whole = part.count == columns;
    const int64_t run = is_whole ? rows.count * columns : part.count;
    const int num_runs = is_whole ? 1 : rows.count;
    for (int i = 0; i < num_runs; ++i) {
      BOLE_RETURN_IF_ERROR(ConvertToFloat(
          Elements(tensor, (rows.first + i) * columns + part.first, run),
          out.first(static_cast<size_t>(run))));
      out = out.subspan(static_cast<size_t>(run));
    }
  }
  return absl::OkStatus();
}

}  // namespace bole
