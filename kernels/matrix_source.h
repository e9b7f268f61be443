// Weight matrices as checkpoints store them, for a backend to take over.
#ifndef BOLE_KERNELS_MATRIX_SOURCE_H_
#define BOLE_KERNELS_MATRIX_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bole {

// How a stored element is encoded, little-endian.
enum class SourceType { kFloat32, kBFloat16, kFloat16 };

constexpr size_t SourceBytes(SourceType type) {
  return type == SourceType::kFloat32 ? 4 : 2;
}

// The bits of the float32 that is equal to the stored element. NaN stays NaN.
// On a GPU, too.
constexpr uint32_t WidenBFloat16(uint16_t stored) {
  return static_cast<uint32_t>(stored) << 16;
}
constexpr uint32_t WidenFloat16(uint16_t stored) {
  const uint32_t sign = static_cast<uint32_t>(stored & 0x8000) << 16;
  const uint32_t exponent = (stored >> 10) & 0x1f;
  uint32_t fraction = stored & 0x3ff;
  // Infinity and NaN keep the top exponent; others move from bias 15 to 127.
  if (exponent == 31) return sign | 0x7f800000u | fraction << 13;
  if (exponent > 0) return sign | (exponent + 112) << 23 | fraction << 13;
  if (fraction == 0) return sign;
  // A subnormal number is a normal one of float32.
  uint32_t wide_exponent = 113;
  for (; (fraction & 0x400) == 0; fraction <<= 1) --wide_exponent;
  return sign | wide_exponent << 23 | (fraction & 0x3ff) << 13;
}

// The bfloat16 nearest to the float32 of these bits, ties to even; NaN is
// 0x7fc0. On a GPU, too.
constexpr uint16_t RoundToBFloat16(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

// out.size() elements, which lie together at any address, as float32, exactly.
// NaN stays NaN.
void Widen(SourceType type, const std::byte* stored, std::span<float> out);

// Rows of a matrix where they are stored, a mapped file as a rule. Columns lie
// together within a row.
struct MatrixBlock {
  const std::byte* data;  // The first row's first element, at any address.
  SourceType type;
  int rows;
  // Bytes from one row's first element to the next one's; at least those of the
  // matrix's columns, and more where only some of a tensor's are taken.
  size_t row_stride;

  const std::byte* row(int index) const {
    return data + static_cast<size_t>(index) * row_stride;
  }
};

// Rows of `columns` floats, one after the other. A view.
MatrixBlock FloatBlock(std::span<const float> values, int columns);

// A matrix [rows(), columns]: the vertical concatenation of `blocks`, which may
// differ in type. A view: neither the blocks nor their bytes are owned.
struct MatrixSource {
  int columns;
  std::span<const MatrixBlock> blocks;

  int rows() const;
  // Bytes of all elements as they are stored.
  int64_t bytes() const;
};

// Elements of one block that lie together in the matrix, row by row: they may
// begin and end within a row.
struct MatrixPiece {
  const MatrixBlock* block;
  int64_t first;   // Index of the first element within the block.
  int64_t count;   // At least 1.
  int64_t offset;  // Index of the first element within the matrix.

  size_t bytes() const {
    return static_cast<size_t>(count) * SourceBytes(block->type);
  }
};

// Pieces of at most `max_bytes` that together are the matrix, in its order,
// each element once. REQUIRES: max_bytes >= 4.
std::vector<MatrixPiece> Divide(const MatrixSource& source, size_t max_bytes);

// Copies the piece's elements as they are stored, without what lies between
// rows, to out [piece.bytes()]. `columns`: those of the matrix.
// COST: reads these bytes and no others.
void CopyPiece(const MatrixPiece& piece, int columns, std::byte* out);

}  // namespace bole

#endif  // BOLE_KERNELS_MATRIX_SOURCE_H_
