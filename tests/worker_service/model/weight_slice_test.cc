#include "worker_service/model/weight_slice.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/matrix_source.h"

namespace bole {
namespace {

// [4, 2, 3] with element i as i.
class WeightSliceTest : public ::testing::Test {
 protected:
  WeightSliceTest() : values_(24) {
    std::iota(values_.begin(), values_.end(), 0.0f);
  }

  TensorView View(StoredDtype dtype, std::span<const std::byte> data) const {
    return {.name = "t", .dtype = dtype, .shape = {4, 2, 3}, .data = data};
  }
  TensorView Floats() const {
    return View(StoredDtype::kF32, std::as_bytes(std::span(values_)));
  }
  static std::vector<float> Read(const TensorView& tensor,
                                 const TensorCut& cut) {
    const WeightSlice slice{tensor, cut};
    std::vector<float> out(static_cast<size_t>(slice.num_elements()));
    const absl::Status status = ConvertToFloat(slice, out);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  std::vector<float> values_;
};

TEST_F(WeightSliceTest, TheFirstDimensionIsRowsAndTheOthersAreColumns) {
  EXPECT_EQ(WholeOf(Floats()),
            (TensorCut{.rows = {{0, 4}}, .columns = {0, 6}}));
  EXPECT_EQ(Read(Floats(), WholeOf(Floats())), values_);

  TensorView vector = Floats();
  vector.shape = {24};
  EXPECT_EQ(Read(vector, {.rows = {{20, 2}}, .columns = {0, 1}}),
            (std::vector<float>{20, 21}));
}

TEST_F(WeightSliceTest, RangesOfRowsComeInTheirOrder) {
  EXPECT_EQ(Read(Floats(), {.rows = {{3, 1}, {0, 2}}, .columns = {0, 6}}),
            (std::vector<float>{18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7,
                                8, 9, 10, 11}));
}

TEST_F(WeightSliceTest, ColumnsAreThoseOfEveryRow) {
  EXPECT_EQ(Read(Floats(), {.rows = {{1, 2}}, .columns = {2, 3}}),
            (std::vector<float>{8, 9, 10, 14, 15, 16}));
  EXPECT_EQ(Read(Floats(), {.rows = {{1, 0}}, .columns = {0, 6}}),
            std::vector<float>{});
}

TEST_F(WeightSliceTest, ElementsOfTwoBytesAreFoundAtAnyAddress) {
  // 1.5 and 2 to the power of 0 .. 22, as bfloat16, from an odd address on.
  std::vector<std::byte> bytes(1 + 2 * 24);
  for (int i = 0; i < 24; ++i) {
    const uint16_t bits = i == 0 ? 0x3fc0 : 0x3f80 + ((i - 1) << 7);
    bytes[1 + 2 * i] = static_cast<std::byte>(bits & 0xff);
    bytes[2 + 2 * i] = static_cast<std::byte>(bits >> 8);
  }

  EXPECT_EQ(Read(View(StoredDtype::kBF16, std::span(bytes).subspan(1)),
                 {.rows = {{0, 2}}, .columns = {0, 2}}),
            (std::vector<float>{1.5f, 1, 32, 64}));
}

TEST_F(WeightSliceTest, ABlockIsARangeOfRowsWhereItIsStored) {
  std::vector<MatrixBlock> blocks;

  ASSERT_TRUE(
      AppendBlocks(
          {Floats(), {.rows = {{3, 1}, {0, 2}, {1, 0}}, .columns = {2, 3}}},
          blocks)
          .ok());

  ASSERT_EQ(blocks.size(), 3u);
  const std::byte* const data = Floats().data.data();
  EXPECT_EQ(blocks[0].data, data + 4 * (3 * 6 + 2));
  EXPECT_EQ(blocks[0].rows, 1);
  EXPECT_EQ(blocks[1].data, data + 4 * 2);
  EXPECT_EQ(blocks[1].rows, 2);
  EXPECT_EQ(blocks[2].rows, 0);
  for (const MatrixBlock& block : blocks) {
    EXPECT_EQ(block.type, SourceType::kFloat32);
    EXPECT_EQ(block.row_stride, 4u * 6);
  }
}

TEST_F(WeightSliceTest, AWrongTypeAndAWrongSizeAreErrors) {
  std::vector<float> out(6);
  const TensorCut row{.rows = {{0, 1}}, .columns = {0, 6}};
  const TensorView integers =
      View(StoredDtype::kI32, std::as_bytes(std::span(values_)));

  EXPECT_EQ(ConvertToFloat({integers, row}, out).message(),
            "tensor \"t\" is I32, expected F32, BF16 or F16");
  std::vector<MatrixBlock> blocks;
  EXPECT_EQ(AppendBlocks({integers, row}, blocks).message(),
            "tensor \"t\" is I32, expected F32, BF16 or F16");
  EXPECT_TRUE(blocks.empty());
  EXPECT_EQ(ConvertToFloat({Floats(), row}, std::span(out).first(5)).message(),
            "a slice of tensor \"t\" has 6 elements, not 5");
}

}  // namespace
}  // namespace bole
