#include "worker_service/model/weight_slice.h"

#include <cstddef>

#include "absl/status/statusor.h"
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

absl::Status AppendBlocks(const WeightSlice& slice,
                          std::vector<MatrixBlock>& blocks) {
  const TensorView& tensor = slice.tensor;
  BOLE_ASSIGN_OR_RETURN(const SourceType type, SourceTypeOf(tensor));
  const int columns = ColumnsOf(tensor);
  const IndexRange& part = slice.cut.columns;
  BOLE_CHECK(part.first >= 0 && part.end() <= columns);
  const size_t row_stride = static_cast<size_t>(columns) * SourceBytes(type);
  const std::byte* const first_column =
      tensor.data.data() + static_cast<size_t>(part.first) * SourceBytes(type);
  for (const IndexRange& rows : slice.cut.rows) {
    BOLE_CHECK(rows.first >= 0 && rows.end() <= tensor.shape[0]);
    blocks.push_back(
        {.data = first_column + static_cast<size_t>(rows.first) * row_stride,
         .type = type,
         .rows = rows.count,
         .row_stride = row_stride});
  }
  return absl::OkStatus();
}

absl::Status ConvertToFloat(const WeightSlice& slice, std::span<float> out) {
  if (static_cast<size_t>(slice.num_elements()) != out.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a slice of tensor ", QuotedName(slice.tensor.name), " has ",
        slice.num_elements(), " elements, not ", out.size()));
  }
  std::vector<MatrixBlock> blocks;
  BOLE_RETURN_IF_ERROR(AppendBlocks(slice, blocks));
  const auto columns = static_cast<size_t>(slice.cut.columns.count);
  for (const MatrixBlock& block : blocks) {
    for (int row = 0; row < block.rows; ++row) {
      Widen(block.type, block.row(row), out.first(columns));
      out = out.subspan(columns);
    }
  }
  return absl::OkStatus();
}

}  // namespace bole
