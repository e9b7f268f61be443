#include "kernels/matrix_source.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace bole {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are little-endian and are read in place");

template <typename Stored, typename ToBits>
void WidenAll(const std::byte* stored, std::span<float> out, ToBits to_bits) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored element;
    std::memcpy(&element, stored + i * sizeof(Stored), sizeof(Stored));
    out[i] = std::bit_cast<float>(to_bits(element));
  }
}

}  // namespace

void Widen(SourceType type, const std::byte* stored, std::span<float> out) {
  if (out.empty()) return;
  switch (type) {
    case SourceType::kFloat32:
      std::memcpy(out.data(), stored, out.size_bytes());
      return;
    case SourceType::kBFloat16:
      return WidenAll<uint16_t>(stored, out, WidenBFloat16);
    case SourceType::kFloat16:
      return WidenAll<uint16_t>(stored, out, WidenFloat16);
  }
}

MatrixBlock FloatBlock(std::span<const float> values, int columns) {
  const auto width = static_cast<size_t>(columns);
  return {.data = std::as_bytes(values).data(),
          .type = SourceType::kFloat32,
          .rows = static_cast<int>(values.size() / width),
          .row_stride = width * sizeof(float)};
}

int MatrixSource::rows() const {
  int sum = 0;
  for (const MatrixBlock& block : blocks) sum += block.rows;
  return sum;
}

int64_t MatrixSource::bytes() const {
  int64_t sum = 0;
  for (const MatrixBlock& block : blocks) {
    sum += int64_t{block.rows} * columns *
           static_cast<int64_t>(SourceBytes(block.type));
  }
  return sum;
}

std::vector<MatrixPiece> Divide(const MatrixSource& source, size_t max_bytes) {
  std::vector<MatrixPiece> pieces;
  int64_t offset = 0;
  for (const MatrixBlock& block : source.blocks) {
    const int64_t size = int64_t{block.rows} * source.columns;
    const auto most = static_cast<int64_t>(max_bytes / SourceBytes(block.type));
    for (int64_t first = 0; first < size; first += most) {
      pieces.push_back({.block = &block,
                        .first = first,
                        .count = std::min(most, size - first),
                        .offset = offset + first});
    }
    offset += size;
  }
  return pieces;
}

void CopyPiece(const MatrixPiece& piece, int columns, std::byte* out) {
  const MatrixBlock& block = *piece.block;
  const size_t element = SourceBytes(block.type);
  const size_t width = static_cast<size_t>(columns);
  if (block.row_stride == width * element) {
    std::memcpy(out, block.data + static_cast<size_t>(piece.first) * element,
                piece.bytes());
    return;
  }
  size_t column = static_cast<size_t>(piece.first) % width;
  const std::byte* row =
      block.data + static_cast<size_t>(piece.first) / width * block.row_stride;
  for (auto left = static_cast<size_t>(piece.count); left > 0;) {
    const size_t count = std::min(left, width - column);
    std::memcpy(out, row + column * element, count * element);
    out += count * element;
    left -= count;
    column = 0;
    row += block.row_stride;
  }
}

}  // namespace bole
