// The part of a tensor that one rank loads.
#ifndef BOLE_WORKER_SERVICE_MODEL_WEIGHT_SLICE_H_
#define BOLE_WORKER_SERVICE_MODEL_WEIGHT_SLICE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/matrix_source.h"
#include "worker_service/model/tensor_view.h"

namespace bole {

// The indices first .. first + count - 1.
struct IndexRange {
  int first;
  int count;

  int end() const { return first + count; }

  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// The elements of a tensor that a rank has: some ranges of its rows, stacked,
// and the same columns of each row. A tensor's first dimension is its rows, and
// all others together are its columns, so a vector has one column.
struct TensorCut {
  std::vector<IndexRange> rows;
  IndexRange columns;

  int num_rows() const;

  friend bool operator==(const TensorCut&, const TensorCut&) = default;
};

// The cut that contains the whole tensor.
// REQUIRES: at least one dimension; no dimension but the first is 0; rows and
// columns fit an int, as those of every tensor of a model do.
TensorCut WholeOf(const TensorView& tensor);

// A cut tensor. The view points into a mapped file, which must stay open.
// INVARIANT: the cut lies within the tensor.
struct WeightSlice {
  TensorView tensor;
  TensorCut cut;

  int64_t num_elements() const {
    return int64_t{cut.num_rows()} * cut.columns.count;
  }
};

// Appends a block for each range of the slice's rows, which points into the
// tensor's bytes. INVALID_ARGUMENT, naming the tensor: it is not F32, BF16 or
// F16. Data is not read.
absl::Status AppendBlocks(const WeightSlice& slice,
                          std::vector<MatrixBlock>& blocks);

// Converts the slice's elements to float32, row by row and exactly, as
// ConvertToFloat() does for a whole tensor. Errors are those of that function.
// COST: reads only the slice, not the rest of the tensor.
absl::Status ConvertToFloat(const WeightSlice& slice, std::span<float> out);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_WEIGHT_SLICE_H_
