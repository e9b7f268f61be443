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
  // Whole rows lie together in the file.
  const bool is_whole = part.count == columns;
  const auto element_bytes = static_cast<size_t>(DtypeBytes(tensor.dtype));
  TensorView run = tensor;  // Elements that lie together, as a vector.
  for (const IndexRange& rows : slice.cut.rows) {
    BOLE_CHECK(rows.first >= 0 && rows.end() <= tensor.shape[0]);
    const int64_t count = is_whole ? rows.count * columns : part.count;
    const auto size = static_cast<size_t>(count);
    run.shape = {count};
    for (int row = rows.first; row < rows.end();
         row += is_whole ? rows.count : 1) {
      const auto first = static_cast<size_t>(row * columns + part.first);
      run.data =
          tensor.data.subspan(first * element_bytes, size * element_bytes);
      BOLE_RETURN_IF_ERROR(ConvertToFloat(run, out.first(size)));
      out = out.subspan(size);
    }
  }
  return absl::OkStatus();
}

}  // namespace bole
