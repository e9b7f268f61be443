// A weight matrix in 7-bit integers (kernels/int7.h) as the products of
// int7_product.h read it.
//
// Strips of 16 rows and pieces of 32 columns form units of 512 bytes: [pieces,
// strips, 32 lanes, 16 bytes]. In a unit, each lane of a warp finds what it
// needs for two products of 16 columns: lane 4 g + j has columns 8 j .. 8 j + 7
// of rows g and g + 8. Beyond the edges of the matrix all bytes stand for zero.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_INT7_MATRIX_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_INT7_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

inline constexpr int kStripRows = 16;
inline constexpr int kPieceColumns = 32;
inline constexpr int kUnitBytes = kStripRows * kPieceColumns;

struct Int7Matrix {
  int rows;
  int columns;
  uint8_t* data;  // [PiecesOf(columns), StripsOf(rows), kUnitBytes]
  float* scale;   // [rows]
};

constexpr int StripsOf(int rows) {
  return (rows + kStripRows - 1) / kStripRows;
}
constexpr int PiecesOf(int columns) {
  return (columns + kPieceColumns - 1) / kPieceColumns;
}
constexpr size_t Int7DataBytes(int rows, int columns) {
  return static_cast<size_t>(StripsOf(rows)) * PiecesOf(columns) * kUnitBytes;
}
// The bytes of the data and of the scales after them.
constexpr size_t Int7Bytes(int rows, int columns) {
  return Int7DataBytes(rows, columns) + sizeof(float) * rows;
}

// The position of an element's byte in its unit. A lane's 16 bytes are four
// words: columns 0 and 1 of row g, then of row g + 8; columns 2 and 3; 4 and 5;
// 6 and 7.
constexpr int ByteInUnit(int row, int column) {
  const int lane = row % 8 * 4 + column % kPieceColumns / 8;
  const int word = column % 8 / 2;
  return lane * 16 + word * 4 + row % kStripRows / 8 * 2 + column % 2;
}
// Where in the data an element's byte is.
constexpr int64_t Int7Byte(int row, int column, int strips) {
  const int64_t unit =
      static_cast<int64_t>(column / kPieceColumns) * strips + row / kStripRows;
  return unit * kUnitBytes + ByteInUnit(row, column);
}

// Quantises [rows, columns] elements into `to`, and replaces each element by
// the value that its integer stands for. If an element is not finite, *bad_row
// becomes its row and the elements are not changed. REQUIRES: *bad_row is -1
// before.
absl::Status QuantizeInt7(void* elements, const Int7Matrix& to,
                          int32_t* bad_row, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_INT7_MATRIX_H_
