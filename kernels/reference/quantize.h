#ifndef BOLE_KERNELS_REFERENCE_QUANTIZE_H_
#define BOLE_KERNELS_REFERENCE_QUANTIZE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/reference/packed_matrix.h"

namespace bole::reference {

// Returns scale * q for every element (kernels/int7.h), as floats. Errors:
// INVALID_ARGUMENT names a row with an element that is not finite;
// RESOURCE_EXHAUSTED if there is no memory.
absl::StatusOr<std::unique_ptr<PackedMatrix>> Quantized(
    const PackedMatrix& matrix);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_QUANTIZE_H_
