// Matrices that the reference backend takes over from where they are stored.
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/matrix_source.h"
#include "kernels/reference/packed_matrix.h"
#include "kernels/reference/reference_backend.h"
#include "tests/testing/matrices.h"

namespace bole::testing {
namespace {

class LoadMatrixTest : public ::testing::TestWithParam<int> {
 protected:
  std::vector<float> Load(int columns, std::span<const MatrixBlock> blocks) {
    const absl::StatusOr<const WeightMatrix*> matrix =
        backend_.LoadMatrix({.columns = columns, .blocks = blocks});
    EXPECT_TRUE(matrix.ok()) << matrix.status();
    const auto& packed = static_cast<const reference::PackedMatrix&>(**matrix);
    EXPECT_EQ(packed.columns, columns);
    std::vector<float> values(static_cast<size_t>(packed.rows) * columns);
    for (int row = 0; row < packed.rows; ++row) {
      packed.CopyRow(row, values.data() + static_cast<size_t>(row) * columns);
    }
    return values;
  }

  ReferenceBackend backend_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Threads, LoadMatrixTest, ::testing::Values(1, 3));

// Three types one below the other, of rows that are no whole panels and of
// which only some columns are taken.
TEST_P(LoadMatrixTest, BlocksOfEveryTypeAreStacked) {
  constexpr int kColumns = 37;
  constexpr int kStride = 41;  // Elements.
  std::mt19937 rng(1);
  const std::vector<float> floats = NormalVector(rng, 45 * kStride);
  std::vector<uint16_t> bfloats(70 * kStride);
  std::vector<uint16_t> halves(33 * kStride);
  for (uint16_t& x : bfloats) x = static_cast<uint16_t>(rng());
  for (uint16_t& x : halves) x = static_cast<uint16_t>(rng());
  std::vector<float> want;
  const auto append = [&](auto& stored, auto widen) {
    for (size_t i = 0; i < stored.size(); ++i) {
      if (i % kStride < kColumns) {
        want.push_back(std::bit_cast<float>(widen(stored[i])));
      }
    }
  };
  append(floats, [](float x) { return std::bit_cast<uint32_t>(x); });
  append(bfloats, WidenBFloat16);
  append(halves, WidenFloat16);
  const std::vector<MatrixBlock> blocks = {
      {.data = std::as_bytes(std::span(floats)).data(),
       .type = SourceType::kFloat32,
       .rows = 45,
       .row_stride = kStride * 4},
      {.data = std::as_bytes(std::span(bfloats)).data(),
       .type = SourceType::kBFloat16,
       .rows = 70,
       .row_stride = kStride * 2},
      {.data = std::as_bytes(std::span(halves)).data(),
       .type = SourceType::kFloat16,
       .rows = 33,
       .row_stride = kStride * 2}};

  EXPECT_TRUE(SameBits(Load(kColumns, blocks), want));
}

TEST_P(LoadMatrixTest, NoRowsAreAMatrix) {
  const MatrixBlock none = FloatBlock({}, 4);
  EXPECT_TRUE(Load(4, {&none, 1}).empty());
}

// Pages before and after the rows cannot be read.
TEST_P(LoadMatrixTest, NothingElseOfAFileIsTouched) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const address = mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BOLE_CHECK(address != MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(address);
  std::vector<uint16_t> stored(page / 2, 0x3f80);
  std::memcpy(bytes + page, stored.data(), page);
  BOLE_CHECK(mprotect(bytes, page, PROT_NONE) == 0);
  BOLE_CHECK(mprotect(bytes + 2 * page, page, PROT_NONE) == 0);
  // The last three columns of the second one of three tensors' rows of a page.
  const MatrixBlock block{.data = bytes + 2 * page - 6,
                          .type = SourceType::kBFloat16,
                          .rows = 1,
                          .row_stride = page};

  EXPECT_EQ(Load(3, {&block, 1}), (std::vector<float>{1, 1, 1}));
  munmap(address, 3 * page);
}

}  // namespace
}  // namespace bole::testing
