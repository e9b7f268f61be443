// Descriptions of device memory for the copy engine of sm_90 and later.
#ifndef BOLE_KERNELS_CUDA_TENSOR_MAP_H_
#define BOLE_KERNELS_CUDA_TENSOR_MAP_H_

#include <cuda.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace bole::cuda {

// Rows of bfloat16 in device memory, of which `box_rows` x `box_columns` are
// copied at a time. In shared memory, the 16-byte units of a box are swizzled
// within 128 bytes, which are filled by box_columns = 64.
struct BoxedRows {
  const void* data;  // At a multiple of 16.
  int64_t rows;
  int columns;
  int box_rows;
  int box_columns;
  // If more than 1, the map is of [parts, rows / parts, columns], and a box has
  // box_rows of each part.
  int parts = 1;
  // If more than 0, the rows of the parts alternate in a box, this many of each
  // at a time. It divides box_rows and rows / parts.
  int turn_rows = 0;
};

// INTERNAL if the driver has no such maps or rejects the parameters.
absl::StatusOr<CUtensorMap> MapOf(const BoxedRows& boxed);

// Rows of bfloat16 in device memory as [columns / piece_columns, rows,
// piece_columns]. box_pieces x box_rows pieces are copied at a time, without
// swizzling. Pieces beyond the rows and columns are zeros.
struct BoxedPieces {
  const void* data;  // At a multiple of 16.
  int rows;
  int columns;  // A multiple of piece_columns.
  int piece_columns;
  int box_rows;
  int box_pieces;
};

// Errors as above.
absl::StatusOr<CUtensorMap> PiecesMapOf(const BoxedPieces& boxed);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_TENSOR_MAP_H_
