// Matrices that a GPU takes over from where they are stored, bit for bit those
// of the reference, rounded.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/matrix_source.h"
#include "kernels/reference/packed_matrix.h"
#include "kernels/weight_store.h"
#include "tests/kernels/cuda/cuda_test.h"

namespace bole::testing {
namespace {

// Rows at an odd address, with bytes between them that belong to nobody.
class StoredRows {
 public:
  StoredRows(SourceType type, int rows, int columns, int gap)
      : type_(type),
        rows_(rows),
        stride_((static_cast<size_t>(columns) + gap) * SourceBytes(type)),
        bytes_(1 + rows * stride_) {}

  std::span<std::byte> bytes() { return std::span(bytes_).subspan(1); }
  MatrixBlock block() const {
    return {.data = bytes_.data() + 1,
            .type = type_,
            .rows = rows_,
            .row_stride = stride_};
  }
  // Any bits, so infinities and NaN as well.
  void FillAtRandom(std::mt19937& rng) {
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(rng());
  }

 private:
  SourceType type_;
  int rows_;
  size_t stride_;
  std::vector<std::byte> bytes_;
};

StoredRows RandomRows(std::mt19937& rng, SourceType type, int rows, int columns,
                      int gap = 0) {
  StoredRows stored(type, rows, columns, gap);
  stored.FillAtRandom(rng);
  return stored;
}

class CudaLoadMatrixTest : public CudaTest {
 protected:
  static const WeightMatrix* Load(WeightStore& store,
                                  const MatrixSource& source) {
    const absl::StatusOr<const WeightMatrix*> matrix = store.LoadMatrix(source);
    EXPECT_TRUE(matrix.ok()) << matrix.status();
    return matrix.ok() ? *matrix : nullptr;
  }

  // What the GPU should have: elements of the reference, as bits.
  std::vector<uint32_t> Want(const MatrixSource& source) {
    const auto* packed =
        static_cast<const reference::PackedMatrix*>(Load(reference_, source));
    std::vector<float> row(static_cast<size_t>(source.columns));
    std::vector<uint32_t> want;
    for (int r = 0; r < packed->rows; ++r) {
      packed->CopyRow(r, row.data());
      for (const float x : row) {
        const auto bits = std::bit_cast<uint32_t>(x);
        want.push_back(is_float() ? bits : Rounded(bits));
      }
    }
    return want;
  }

  // NaN of a bfloat16 has no bits in common but that it is one.
  static uint32_t Rounded(uint32_t bits) {
    return Comparable(RoundToBFloat16(bits));
  }
  static uint32_t Comparable(uint16_t stored) {
    return (stored & 0x7fff) > 0x7f80 ? 0x7fc0 : stored;
  }

  std::vector<uint32_t> Got(const WeightMatrix* matrix) {
    const size_t size = static_cast<size_t>(matrix->rows) * matrix->columns;
    const void* data = static_cast<const cuda::DeviceMatrix*>(matrix)->data;
    std::vector<uint32_t> got(size);
    if (is_float()) {
      Download(data, got.data(), size * sizeof(uint32_t));
      return got;
    }
    std::vector<uint16_t> narrow(size);
    Download(data, narrow.data(), size * sizeof(uint16_t));
    std::transform(narrow.begin(), narrow.end(), got.begin(), Comparable);
    return got;
  }

  void Download(const void* from, void* to, size_t bytes) {
    const absl::Status done = cuda_->Download(to, from, bytes);
    ASSERT_TRUE(done.ok()) << done;
  }

  void ExpectEqual(const MatrixSource& source) {
    const std::vector<uint32_t> want = Want(source);
    const std::vector<uint32_t> got = Got(Load(*cuda_, source));
    ASSERT_EQ(got.size(), want.size());
    const auto differs = std::mismatch(got.begin(), got.end(), want.begin());
    if (differs.first == got.end()) return;
    ADD_FAILURE() << "element " << differs.first - got.begin() << " is "
                  << std::hex << *differs.first << ", not " << *differs.second;
  }
};
BOLE_FOR_EACH_ELEMENT(CudaLoadMatrixTest);

constexpr SourceType kTypes[] = {SourceType::kFloat32, SourceType::kBFloat16,
                                 SourceType::kFloat16};

TEST_P(CudaLoadMatrixTest, EveryElementOfSixteenBitsIsThatOfTheReference) {
  for (const SourceType type : {SourceType::kBFloat16, SourceType::kFloat16}) {
    StoredRows stored(type, 256, 256, 0);
    std::vector<uint16_t> patterns(65536);
    std::iota(patterns.begin(), patterns.end(), uint16_t{0});
    std::memcpy(stored.bytes().data(), patterns.data(), 2 * patterns.size());
    const MatrixBlock block = stored.block();
    ExpectEqual({.columns = 256, .blocks = {&block, 1}});
  }
}

TEST_P(CudaLoadMatrixTest, HostileFloatsAreRoundedAsOnTheHost) {
  const std::vector<uint32_t> bits = {
      0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00008000, 0x00018000,
      0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0x7f7fffff, 0xff7fffff,
      0x7f7f7fff, 0x7f7f8000, 0x7f800000, 0xff800000, 0x7f800001, 0xff800001,
      0x7fc00000, 0x7fffffff, 0xffffffff};
  StoredRows stored(SourceType::kFloat32, 1, static_cast<int>(bits.size()), 0);
  std::memcpy(stored.bytes().data(), bits.data(), 4 * bits.size());
  const MatrixBlock block = stored.block();
  const MatrixSource source{.columns = static_cast<int>(bits.size()),
                            .blocks = {&block, 1}};
  ExpectEqual(source);
  if (is_float()) return;

  // Every NaN of a float is one bfloat16.
  std::vector<uint16_t> narrow(bits.size());
  Download(static_cast<const cuda::DeviceMatrix*>(Load(*cuda_, source))->data,
           narrow.data(), 2 * narrow.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(narrow[i], RoundToBFloat16(bits[i])) << std::hex << bits[i];
  }
}

// Sizes that are no whole number of anything, of one piece and of many, whole
// rows and some of their columns.
TEST_P(CudaLoadMatrixTest, RowsOfEveryTypeAndSizeAreThoseOfTheReference) {
  struct Size {
    int rows;
    int columns;
    int gap;
  };
  for (const SourceType type : kTypes) {
    for (const Size& size :
         {Size{1, 1, 0}, Size{3, 5, 2}, Size{1, 2'000'003, 0},
          Size{2'000'003, 1, 1}, Size{1531, 2049, 0}, Size{1531, 2049, 2051}}) {
      const StoredRows stored =
          RandomRows(rng_, type, size.rows, size.columns, size.gap);
      const MatrixBlock block = stored.block();
      ExpectEqual({.columns = size.columns, .blocks = {&block, 1}});
    }
  }
}

TEST_P(CudaLoadMatrixTest, BlocksOfDifferentTypesAreStacked) {
  constexpr int kColumns = 1027;
  std::vector<StoredRows> stored;
  std::vector<MatrixBlock> blocks;
  for (const int rows : {700, 0, 3, 1}) {
    for (const SourceType type : kTypes) {
      stored.push_back(RandomRows(rng_, type, rows, kColumns, rows % 2));
      blocks.push_back(stored.back().block());
    }
  }
  ExpectEqual({.columns = kColumns, .blocks = blocks});
}

TEST_P(CudaLoadMatrixTest, NoRowsAreAMatrix) {
  const MatrixBlock none = FloatBlock({}, 8);
  ExpectEqual({.columns = 8, .blocks = {&none, 1}});
}

// Many small ones after one another, whose bytes are overwritten as soon as
// LoadMatrix() has returned.
TEST_P(CudaLoadMatrixTest, BytesMayGoWhenAMatrixIsLoaded) {
  constexpr int kRows = 37;
  constexpr int kColumns = 4099;  // Pieces for several threads.
  std::vector<std::vector<uint32_t>> want;
  std::vector<const WeightMatrix*> loaded;
  for (int i = 0; i < 60; ++i) {
    StoredRows stored = RandomRows(rng_, kTypes[i % 3], kRows, kColumns);
    const MatrixBlock block = stored.block();
    const MatrixSource source{.columns = kColumns, .blocks = {&block, 1}};
    want.push_back(Want(source));
    loaded.push_back(Load(*cuda_, source));
    std::fill(stored.bytes().begin(), stored.bytes().end(), std::byte{0x5a});
  }
  for (size_t i = 0; i < loaded.size(); ++i) {
    EXPECT_EQ(Got(loaded[i]), want[i]) << "matrix " << i;
  }
}

// The error is as before anything was read, and the backend goes on.
TEST_P(CudaLoadMatrixTest, WhatDoesNotFitSaysSo) {
  const MatrixBlock block{.data = nullptr,
                          .type = SourceType::kBFloat16,
                          .rows = std::numeric_limits<int>::max(),
                          .row_stride = 2 * 65536};

  const absl::Status status =
      cuda_->LoadMatrix({.columns = 65536, .blocks = {&block, 1}}).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(status.message())
                .find("no room on the GPU for a matrix of 2147483647 by 65536"),
            0u)
      << status;
  const StoredRows stored = RandomRows(rng_, SourceType::kBFloat16, 5, 7);
  const MatrixBlock small = stored.block();
  ExpectEqual({.columns = 7, .blocks = {&small, 1}});
}

}  // namespace
}  // namespace bole::testing
