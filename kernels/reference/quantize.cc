#include "kernels/reference/quantize.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/int7.h"

namespace bole::reference {
namespace {

bool AllFinite(const std::vector<float>& row) {
  return std::all_of(row.begin(), row.end(),
                     [](float w) { return std::isfinite(w); });
}

void QuantizeRow(std::vector<float>& row) {
  float largest = 0;
  for (const float w : row) largest = std::max(largest, std::abs(w));
  const float scale = Int7Scale(largest);
  for (float& w : row) w = scale * static_cast<float>(QuantizedInt7(w, scale));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> Quantized(
    const PackedMatrix& matrix) {
  auto quantized = PackedMatrix::Create(matrix.rows, matrix.columns);
  if (quantized == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for a matrix of ", matrix.rows, " by ",
                     matrix.columns, " float32"));
  }
  std::vector<float> row(matrix.columns);
  for (int r = 0; r < matrix.rows; ++r) {
    matrix.CopyRow(r, row.data());
    if (!AllFinite(row)) {
      return absl::InvalidArgumentError(
          absl::StrCat("row ", r, " of a matrix of ", matrix.rows, " by ",
                       matrix.columns, " has an element that is not finite"));
    }
    QuantizeRow(row);
    quantized->SetRows(r, row);
  }
  return quantized;
}

}  // namespace bole::reference
