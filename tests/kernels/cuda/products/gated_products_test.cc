// Products with their gate, of up to 8 rows and of 33 or more, against the same
// sums in double.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/product.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/products/matmuls_test.h"
#include "tests/kernels/cuda/products/product_case.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"

namespace bole::testing {
namespace {

struct GatedShape {
  int capacity;  // N
  int count;     // Rows in use; the others are not a number.
  int outputs;
  int columns;
};

struct GatedCase {
  GatedCase(std::mt19937& rng, const GatedShape& s)
      : shape(s),
        operands(rng, {s.capacity, s.count, 2 * s.outputs, s.columns},
                 ProductOut::kElements),
        out(static_cast<size_t>(s.capacity) * s.outputs) {}

  // Row `row` of the matrix with row n of x.
  double Sum(int n, int row) const {
    const float* x = &operands.x[static_cast<size_t>(n) * shape.columns];
    const float* w = &operands.weight[static_cast<size_t>(row) * shape.columns];
    double sum = 0;
    for (int c = 0; c < shape.columns; ++c) {
      sum += static_cast<double>(x[c]) * w[c];
    }
    return sum;
  }

  void ExpectOut(double roundoff) const {
    // Sums are of size sqrt(columns), each of their terms is in float32.
    const double summed =
        2.0 * shape.columns * kFloatRoundoff * std::sqrt(shape.columns);
    ExpectRows(out, shape.count, shape.outputs, roundoff, [&](int n, int i) {
      return ExpectGated(Sum(n, i), Sum(n, shape.outputs + i), summed);
    });
  }

  GatedShape shape;
  ProductCase operands;
  GuardedBuffer<float> out;  // [N, outputs]
};

class GatedProductsTest : public MatMulsTest {
 protected:
  bool Supported(const GatedShape& s) const {
    cuda::Product product = {};
    product.num_rows = s.capacity;
    product.rows = 2 * s.outputs;
    product.columns = s.columns;
    product.gated = true;
    return matmuls_->CanStream(product, ElementType::kBFloat16);
  }

  void Run(GatedCase& c) {
    const GatedShape& s = c.shape;
    DeviceCopies copies(*cuda_);
    const void* x_on_device = copies.Activations(c.operands.x);
    void* out = copies.Activations(c.out);
    const auto* matrix = static_cast<const cuda::DeviceMatrix*>(
        LoadRows(*cuda_, 2 * s.outputs, s.columns, c.operands.weight));
    const absl::Status status =
        matmuls_->RunStreamed({.num_rows = s.capacity,
                               .count = copies.Of(c.operands.count),
                               .rows = 2 * s.outputs,
                               .columns = s.columns,
                               .x = x_on_device,
                               .weight = matrix->data,
                               .out = out,
                               .float_out = false,
                               .accumulate = false,
                               .gated = true},
                              cuda_->launch());
    copies.Fetch();
    ASSERT_TRUE(status.ok()) << status;
  }
};

INSTANTIATE_TEST_SUITE_P(BFloat16, GatedProductsTest,
                         ::testing::Values(ElementType::kBFloat16),
                         ElementName);

TEST_P(GatedProductsTest, AreNotThereForSomeRowsOddOutputsAndManyTiles) {
  EXPECT_FALSE(Supported({9, 9, 264, 136}));
  EXPECT_FALSE(Supported({32, 32, 264, 136}));
  EXPECT_FALSE(Supported({64, 64, 260, 136}));
  EXPECT_FALSE(Supported({64, 64, 17408, 136}));
}

// One turn of gates and ups, tiles of one to three warpgroups, such that end in
// the middle, blocks without any, and few rows in use. Of few rows: one output
// a block or none, several tiles, one row, and columns that are no whole
// chunks.
TEST_P(GatedProductsTest, AreTheirSumsForAnyShape) {
  if (!cuda_->launch().overlaps) GTEST_SKIP() << "no kernels for it";
  constexpr std::array<GatedShape, 15> kShapes = {{{33, 33, 8, 8},
                                                   {48, 47, 136, 200},
                                                   {64, 64, 264, 1032},
                                                   {49, 16, 1056, 72},
                                                   {64, 33, 4104, 136},
                                                   {40, 5, 8456, 264},
                                                   {64, 3, 12288, 328},
                                                   {64, 2, 12672, 72},
                                                   {64, 0, 520, 520},
                                                   {1, 1, 8, 8},
                                                   {1, 1, 6144, 1032},
                                                   {8, 8, 131, 200},
                                                   {8, 3, 8704, 520},
                                                   {5, 5, 9001, 72},
                                                   {4, 0, 520, 520}}};
  for (size_t i = 0; i < kShapes.size(); i += EveryNth(2)) {
    const GatedShape& s = kShapes[i];
    SCOPED_TRACE(::testing::Message()
                 << s.count << " of " << s.capacity << " rows, " << s.columns
                 << " to " << s.outputs);
    ASSERT_TRUE(Supported(s));
    GatedCase c(rng_, s);
    Run(c);
    if (HasFailure()) return;
    c.ExpectOut(roundoff());
    if (HasFailure()) return;
  }
}

TEST_P(GatedProductsTest, HaveTheSameBitsEveryTime) {
  if (!cuda_->launch().overlaps) GTEST_SKIP() << "no kernels for it";
  for (const int capacity : {1, 8, 48, 64}) {
    GatedCase first(rng_, {capacity, capacity, 6144, 2048});
    Run(first);
    for (int i = 0; i < 6 / EveryNth(3) && !HasFailure(); ++i) {
      GatedCase again = first;
      Run(again);
      EXPECT_TRUE(SameBits(again.out.all(), first.out.all()));
    }
  }
}

}  // namespace
}  // namespace bole::testing
