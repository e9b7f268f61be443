#include "kernels/matrix_source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

// Between two bfloat16 the nearer one, by distances in double precision, and of
// two that are equally near the even one.
uint16_t NearestBFloat16(float x) {
  const auto below = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
  const auto above = static_cast<uint16_t>(below + 1);  // Away from 0.
  const auto distance = [x](uint16_t to) {
    double value = std::bit_cast<float>(static_cast<uint32_t>(to) << 16);
    // Overflow goes by the number that the next exponent would have.
    if (std::isinf(value)) value = std::copysign(0x1p128, value);
    return std::abs(value - static_cast<double>(x));
  };
  if (distance(below) != distance(above)) {
    return distance(below) < distance(above) ? below : above;
  }
  return below % 2 == 0 ? below : above;
}

TEST(RoundToBFloat16Test, TakesTheNearestAndTheEvenOneOfTwo) {
  std::mt19937 rng(1);
  for (int i = 0; i < 200000; ++i) {
    // All exponents but that of NaN, and every other one halfway or beside it.
    uint32_t bits = rng();
    if (i % 2 == 0) bits = (bits & 0xffff0000u) | (0x7fff + i / 2 % 3);
    if ((bits & 0x7f800000u) == 0x7f800000u) continue;
    ASSERT_EQ(RoundToBFloat16(bits),
              NearestBFloat16(std::bit_cast<float>(bits)))
        << std::hex << bits;
  }
}

TEST(RoundToBFloat16Test, KeepsInfinityAndMakesEveryNanTheSame) {
  EXPECT_EQ(RoundToBFloat16(0x7f800000u), 0x7f80);
  EXPECT_EQ(RoundToBFloat16(0xff800000u), 0xff80);
  EXPECT_EQ(RoundToBFloat16(0x7f7fffffu), 0x7f80);  // The largest number.
  for (const uint32_t nan :
       {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u}) {
    EXPECT_EQ(RoundToBFloat16(nan), 0x7fc0) << std::hex << nan;
  }
}

// Bytes of random rows at an odd address, with other bytes between them.
class Rows {
 public:
  Rows(std::mt19937& rng, SourceType type, int rows, int columns, int gap)
      : width_(static_cast<size_t>(columns) * SourceBytes(type)),
        stride_(width_ + static_cast<size_t>(gap) * SourceBytes(type)) {
    // Nothing lies after the last row, for a sanitizer to see.
    bytes_.resize(rows == 0 ? 1 : 1 + (rows - 1) * stride_ + width_);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(rng());
    block_ = {.data = bytes_.data() + 1,
              .type = type,
              .rows = rows,
              .row_stride = stride_};
  }

  const MatrixBlock& block() const { return block_; }
  // The rows without what lies between them.
  void AppendTo(std::vector<std::byte>& out) const {
    for (int row = 0; row < block_.rows; ++row) {
      const std::byte* from = bytes_.data() + 1 + row * stride_;
      out.insert(out.end(), from, from + width_);
    }
  }

 private:
  size_t width_;
  size_t stride_;
  std::vector<std::byte> bytes_;
  MatrixBlock block_ = {};
};

TEST(DivideTest, PiecesAreTheWholeMatrixInOrder) {
  std::mt19937 rng(2);
  for (int round = 0; round < 300; ++round) {
    const int columns = 1 + static_cast<int>(rng() % 40);
    std::vector<Rows> rows;
    const size_t num_blocks = 1 + rng() % 3;
    rows.reserve(num_blocks);
    std::vector<MatrixBlock> blocks;
    std::vector<std::byte> want;
    for (size_t i = 0; i < num_blocks; ++i) {
      rows.emplace_back(rng, static_cast<SourceType>(rng() % 3),
                        static_cast<int>(rng() % 20), columns,
                        static_cast<int>(rng() % 3));
      blocks.push_back(rows.back().block());
      rows.back().AppendTo(want);
    }
    const MatrixSource source{.columns = columns, .blocks = blocks};
    const size_t max_bytes = 4 + rng() % 200;
    std::vector<std::byte> got;
    int64_t offset = 0;
    for (const MatrixPiece& piece : Divide(source, max_bytes)) {
      ASSERT_GE(piece.count, 1);
      ASSERT_LE(piece.bytes(), max_bytes);
      ASSERT_EQ(piece.offset, offset);
      offset += piece.count;
      std::vector<std::byte> bytes(piece.bytes());
      CopyPiece(piece, columns, bytes.data());
      got.insert(got.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(offset, int64_t{source.rows()} * columns);
    EXPECT_EQ(source.bytes(), static_cast<int64_t>(want.size()));
    EXPECT_EQ(got, want) << "round " << round;
  }
}

TEST(DivideTest, NoRowsAreNoPieces) {
  const MatrixBlock none = FloatBlock({}, 3);
  EXPECT_TRUE(Divide({.columns = 3, .blocks = {&none, 1}}, 4).empty());
  EXPECT_TRUE(Divide({.columns = 3, .blocks = {}}, 4).empty());
}

// Embeddings of the largest models have more elements than an int counts. No
// byte of them is read here.
TEST(DivideTest, SizesMayBeLargerThanAnInt) {
  const MatrixBlock block{.data = nullptr,
                          .type = SourceType::kBFloat16,
                          .rows = 2'000'000'000,
                          .row_stride = 40'000};
  const MatrixSource source{.columns = 20'000, .blocks = {&block, 1}};

  EXPECT_EQ(source.bytes(), 80'000'000'000'000);
  const std::vector<MatrixPiece> pieces = Divide(source, size_t{1} << 36);

  const MatrixPiece& last = pieces.back();
  EXPECT_EQ(last.first + last.count, 40'000'000'000'000);
  EXPECT_EQ(last.offset, last.first);
}

TEST(FloatBlockTest, HasTheRowsOfItsFloats) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const MatrixBlock block = FloatBlock(values, 3);
  std::vector<float> row(3);

  Widen(block.type, block.row(1), row);

  EXPECT_EQ(block.rows, 2);
  EXPECT_EQ(row, (std::vector<float>{4, 5, 6}));
}

}  // namespace
}  // namespace bole
