// Products of few and of more rows by the kernels that stream the weights,
// against the reference.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/products/stream_product.h"
#include "kernels/cuda/products/wide_product.h"
#include "kernels/dense.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/products/matmuls_test.h"
#include "tests/kernels/cuda/products/product_case.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"

namespace bole::testing {
namespace {

using Shape = ProductShape;
using Out = ProductOut;

cuda::Product Nameless(int num_rows, int rows, int columns) {
  cuda::Product product = {};
  product.num_rows = num_rows;
  product.rows = rows;
  product.columns = columns;
  return product;
}

class StreamedProductsTest : public MatMulsTest {
 protected:
  // Where the GPU is another, there is nothing to test.
  bool Supported() const {
    return matmuls_->CanStream(Nameless(1, 8, 8), ElementType::kBFloat16);
  }

  void ExpectProduct(const Shape& shape, Out kind) {
    ProductCase c(rng_, shape, kind);
    SCOPED_TRACE(::testing::Message() << c);
    const bool floats = kind == Out::kFloats;
    DeviceCopies copies(*cuda_);
    const void* x_on_device = copies.Activations(c.x);
    void* out = floats ? static_cast<void*>(copies.Of(c.out))
                       : static_cast<void*>(copies.Activations(c.out));
    const auto* matrix = static_cast<const cuda::DeviceMatrix*>(
        LoadRows(*cuda_, shape.rows, shape.columns, c.weight));
    GuardedBuffer<float> want = c.out;

    const absl::Status status =
        matmuls_->RunStreamed({.num_rows = shape.capacity,
                               .count = copies.Of(c.count),
                               .rows = shape.rows,
                               .columns = shape.columns,
                               .x = x_on_device,
                               .weight = matrix->data,
                               .out = out,
                               .float_out = floats,
                               .accumulate = kind == Out::kAccumulated},
                              cuda_->launch());
    copies.Fetch();
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(
        reference_
            .MatMul({.rows = {.count = c.count.data(), .max = shape.capacity},
                     .x = AsActivations(c.x.data()),
                     .weight = LoadRows(reference_, shape.rows, shape.columns,
                                        c.weight),
                     .out = floats ? nullptr : AsActivations(want.data()),
                     .out_float = floats ? want.data() : nullptr,
                     .accumulate = kind == Out::kAccumulated})
            .ok());

    c.ExpectClose(want, roundoff());
  }
};

INSTANTIATE_TEST_SUITE_P(BFloat16, StreamedProductsTest,
                         ::testing::Values(ElementType::kBFloat16),
                         ElementName);

TEST_P(StreamedProductsTest, AreNotThereForOddColumnsAndManyRows) {
  const cuda::Launch& on = cuda_->launch();
  EXPECT_TRUE(
      absl::IsUnimplemented(matmuls_->RunStreamed(Nameless(1, 8, 7), on)));
  EXPECT_TRUE(absl::IsUnimplemented(
      matmuls_->RunStreamed(Nameless(cuda::kMaxWideRows + 1, 8, 8), on)));
}

TEST_P(StreamedProductsTest, AreTheReferencesForAnyNumberOfRows) {
  if (!Supported()) GTEST_SKIP() << "no kernels for this GPU";
  for (int rows = 1; rows <= cuda::kMaxWideRows; rows += EveryNth(5)) {
    ExpectProduct({rows, rows, 264, 136}, Out::kElements);
    ExpectProduct({rows, rows - rows / 3, 520, 72}, Out::kFloats);
    if (HasFailure()) return;
  }
}

// Single rows, fewer columns than a chunk, tiles that end in the middle, more
// tiles than blocks, and sizes of the models.
TEST_P(StreamedProductsTest, AreTheReferencesForAnyShape) {
  if (!Supported()) GTEST_SKIP() << "no kernels for this GPU";
  constexpr std::array<std::pair<int, int>, 11> kShapes = {{{1, 8},
                                                            {1, 4096},
                                                            {7, 200},
                                                            {129, 72},
                                                            {1000, 1032},
                                                            {4096, 512},
                                                            {4097, 264},
                                                            {5120, 200},
                                                            {8450, 128},
                                                            {12352, 256},
                                                            {33001, 64}}};
  ForShapesAndUses(kShapes, 2000000,
                   [&](const ProductShape& shape, ProductOut out) {
                     ExpectProduct(shape, out);
                   });
}

// Products of 33 rows or more: pairs of blocks that divide the columns, tiles
// of one to three warpgroups and tiles that end in the middle, several tiles of
// a block, and blocks without rows.
TEST_P(StreamedProductsTest, AreTheReferencesHoweverBlocksDivideThem) {
  if (!Supported()) GTEST_SKIP() << "no kernels for this GPU";
  constexpr std::array<std::pair<int, int>, 12> kShapes = {{{1, 8},
                                                            {7, 1096},
                                                            {129, 72},
                                                            {1001, 1032},
                                                            {4097, 1024},
                                                            {8450, 1032},
                                                            {12352, 1096},
                                                            {12673, 1032},
                                                            {14336, 200},
                                                            {25344, 72},
                                                            {25345, 136},
                                                            {34816, 264}}};
  int shape = 0;
  for (const auto& [rows, columns] : kShapes) {
    // Those of much work with few rows in use.
    const bool is_large = rows > 2000;
    for (const int capacity : {33, 48, 49, 64}) {
      if (is_large && (capacity == 48 || capacity == 49)) continue;
      const int count = is_large ? 3 + shape % 3 : capacity - shape % 2;
      const Out out = static_cast<Out>(shape++ % 3);
      ExpectProduct({capacity, count, rows, columns}, out);
      if (HasFailure()) return;
    }
  }
}

// No order of arrival of blocks shows.
TEST_P(StreamedProductsTest, HaveTheSameBitsEveryTime) {
  if (!Supported()) GTEST_SKIP() << "no kernels for this GPU";
  constexpr int kRows = 4096;
  constexpr int kColumns = 4096;
  for (const int capacity : {1, 12, 32, 48, 64}) {
    GuardedBuffer<float> x(static_cast<size_t>(capacity) * kColumns);
    FillNormal(rng_, 1, x.span(0, x.size()));
    GuardedBuffer<int32_t> count(1);
    count[0] = capacity;
    const auto* matrix = static_cast<const cuda::DeviceMatrix*>(
        LoadRows(*cuda_, kRows, kColumns,
                 NormalVector(rng_, static_cast<size_t>(kRows) * kColumns)));
    std::vector<GuardedBuffer<float>> outs(
        10 / EveryNth(5),
        GuardedBuffer<float>(static_cast<size_t>(capacity) * kRows));
    DeviceCopies copies(*cuda_);
    const void* x_on_device = copies.Activations(x);
    const int32_t* count_on_device = copies.Of(count);

    for (GuardedBuffer<float>& out : outs) {
      const absl::Status status =
          matmuls_->RunStreamed({.num_rows = capacity,
                                 .count = count_on_device,
                                 .rows = kRows,
                                 .columns = kColumns,
                                 .x = x_on_device,
                                 .weight = matrix->data,
                                 .out = copies.Of(out),
                                 .float_out = true,
                                 .accumulate = false},
                                cuda_->launch());
      ASSERT_TRUE(status.ok()) << status;
    }
    copies.Fetch();

    for (const GuardedBuffer<float>& out : outs) {
      EXPECT_TRUE(SameBits(out.all(), outs[0].all()));
    }
  }
}

}  // namespace
}  // namespace bole::testing
