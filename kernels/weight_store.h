#ifndef BOLE_KERNELS_WEIGHT_STORE_H_
#define BOLE_KERNELS_WEIGHT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/generate.h"
#include "kernels/matrix_source.h"
#include "kernels/tensor.h"

namespace bole {

// Owns weight matrices, for its own lifetime, in the form that matrix products
// read. Functions return RESOURCE_EXHAUSTED if there is no memory for another
// matrix.
class WeightStore {
 public:
  virtual ~WeightStore() = default;

  // Converts a matrix to the element type that products read and packs it.
  // Elements are exact where activations are float32, and rounded to the
  // nearest bfloat16 where activations are bfloat16. NaN stays NaN; infinities,
  // and values that round to them, are kept. The source's bytes may be freed
  // when this returns, though copies to the device may still be queued:
  // operators that are called later see the whole matrix.
  // COST: reads the source's elements once, with several threads.
  virtual absl::StatusOr<const WeightMatrix*> LoadMatrix(
      const MatrixSource& source) = 0;
  // A new matrix with the rows `row` of `matrix`, in that order, copied on the
  // device. REQUIRES: every row is in [0, matrix.rows).
  virtual absl::StatusOr<const WeightMatrix*> GatherMatrix(
      const WeightMatrix& matrix, std::span<const int32_t> row) = 0;
  // A matrix that is computed in its final place (kernels/generate.h).
  virtual absl::StatusOr<const WeightMatrix*> GenerateMatrix(
      const MatrixGenerator& generator) = 0;
  // Replaces `matrix` by its quantization to 7-bit integers (kernels/int7.h);
  // nothing may refer to `matrix` itself afterwards. Each element is the value
  // that its integer stands for, rounded to the type of activations where
  // products do not read the integers; a store may keep both forms. For
  // MatMul() alone. INVALID_ARGUMENT, and `matrix` stays, if an element is
  // infinite or NaN.
  virtual absl::StatusOr<const WeightMatrix*> QuantizeMatrix(
      const WeightMatrix& matrix) = 0;
  // How many bytes of the device's memory a matrix takes.
  virtual size_t MatrixBytes(const WeightMatrix& matrix) const = 0;
};

}  // namespace bole

#endif  // BOLE_KERNELS_WEIGHT_STORE_H_
