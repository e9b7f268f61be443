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

// Owns weight matrices, for its own lifetime, as products read them.
// RESOURCE_EXHAUSTED where there is no memory for another one.
class WeightStore {
 public:
  virtual ~WeightStore() = default;

  // Converts a matrix to what products read and packs it. Each element is exact
  // in float32, and the nearest bfloat16 where activations are; NaN stays NaN,
  // and infinities and what rounds to them are kept. The source's bytes may be
  // gone when this returns, though copies to the device may still be queued:
  // operators that are called later see the whole matrix.
  // COST: reads the source's elements once, with several threads.
  virtual absl::StatusOr<const WeightMatrix*> LoadMatrix(
      const MatrixSource& source) = 0;
  // A matrix of its own with the rows `row` of `matrix`, in that order; copied
  // on the device. REQUIRES: every row in [0, matrix.rows).
  virtual absl::StatusOr<const WeightMatrix*> GatherMatrix(
      const WeightMatrix& matrix, std::span<const int32_t> row) = 0;
  // A matrix that is computed where it will lie (kernels/generate.h).
  virtual absl::StatusOr<const WeightMatrix*> GenerateMatrix(
      const MatrixGenerator& generator) = 0;
  // `matrix` in 7-bit integers (kernels/int7.h), in its place: nothing may
  // refer to `matrix` itself any more. Each element is what its integer stands
  // for, rounded to the type of activations where products do not read the
  // integers; a store may keep both. For MatMul() alone. INVALID_ARGUMENT, and
  // `matrix` stays, if an element is infinite or not a number.
  virtual absl::StatusOr<const WeightMatrix*> QuantizeMatrix(
      const WeightMatrix& matrix) = 0;
  // How many bytes of the device's memory a matrix takes.
  virtual size_t MatrixBytes(const WeightMatrix& matrix) const = 0;
};

}  // namespace bole

#endif  // BOLE_KERNELS_WEIGHT_STORE_H_
