// Matrices of 7-bit integers and their products, against the reference.
#include "kernels/cuda/products/int7_products.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/cuda/products/int7_product.h"
#include "kernels/cuda/products/product.h"
#include "kernels/weight_store.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/products/product_case.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"

namespace bole::testing {
namespace {

using Shape = ProductShape;
using Out = ProductOut;

class Int7ProductsTest : public CudaTest {
 protected:
  // Quantises a matrix of numbers that bfloat16 represents exactly.
  static const WeightMatrix* Quantized(WeightStore& store, const Shape& shape,
                                       std::span<const float> weight) {
    const absl::StatusOr<const WeightMatrix*> matrix = store.QuantizeMatrix(
        *LoadRows(store, shape.rows, shape.columns, weight));
    EXPECT_TRUE(matrix.ok()) << matrix.status();
    return matrix.ok() ? *matrix : nullptr;
  }
  std::vector<float> Weight(const Shape& shape) {
    std::vector<float> weight =
        NormalVector(rng_, static_cast<size_t>(shape.rows) * shape.columns);
    for (float& w : weight) w = RoundedToBFloat16(w);
    return weight;
  }

  void ExpectProduct(const Shape& shape, Out kind) {
    ProductCase c(rng_, shape, kind);
    SCOPED_TRACE(::testing::Message() << c);
    DeviceCopies copies(*cuda_);
    const bool floats = kind == Out::kFloats;
    MatMulParams params = {
        .rows = {.count = copies.Of(c.count), .max = shape.capacity},
        .x = copies.Activations(c.x),
        .weight = Quantized(*cuda_, shape, c.weight),
        .out = floats ? nullptr : copies.Activations(c.out),
        .out_float = floats ? copies.Of(c.out) : nullptr,
        .accumulate = kind == Out::kAccumulated};
    GuardedBuffer<float> want = c.out;

    const absl::Status status = cuda_->MatMul(params);
    copies.Fetch();
    ASSERT_TRUE(status.ok()) << status;
    params.rows.count = c.count.data();
    params.x = AsActivations(c.x.data());
    params.weight = Quantized(reference_, shape, c.weight);
    params.out = floats ? nullptr : AsActivations(want.data());
    params.out_float = floats ? want.data() : nullptr;
    ASSERT_TRUE(reference_.MatMul(params).ok());

    // Where the integers are not read, their elements have been rounded: by
    // less than half a roundoff in the mean, so four are eight deviations of
    // the sum.
    const bool reads_integers =
        shape.capacity <= cuda::kMaxInt7Rows && shape.columns % 32 == 0;
    c.ExpectClose(want, roundoff(),
                  is_float() || reads_integers ? 0 : 4 * roundoff());
  }
};

BOLE_FOR_EACH_ELEMENT(Int7ProductsTest);

TEST_P(Int7ProductsTest, AreTheReferencesForAnyNumberOfRows) {
  for (int rows = 1; rows <= cuda::kMaxInt7Rows; rows += EveryNth(5)) {
    ExpectProduct({rows, rows, 264, 160}, Out::kElements);
    ExpectProduct({rows, rows - rows / 3, 520, 96}, Out::kFloats);
    if (HasFailure()) return;
  }
  // And of more, by the elements that the integers stand for.
  for (const int rows : {33, 64, 150}) {
    ExpectProduct({rows, rows, 200, 64}, Out::kElements);
    ExpectProduct({rows, rows - 1, 200, 64}, Out::kAccumulated);
    ExpectProduct({rows, 10, 200, 64}, Out::kFloats);
    if (HasFailure()) return;
  }
}

// Single rows, columns that are no multiple of a piece, strips that end in the
// middle, more tiles than blocks, and sizes of the models.
TEST_P(Int7ProductsTest, AreTheReferencesForAnyShape) {
  constexpr std::array<std::pair<int, int>, 14> kShapes = {{{1, 8},
                                                            {1, 4096},
                                                            {7, 200},
                                                            {16, 32},
                                                            {129, 64},
                                                            {1000, 1056},
                                                            {2112, 544},
                                                            {2128, 96},
                                                            {4096, 512},
                                                            {4097, 264},
                                                            {8450, 128},
                                                            {12352, 256},
                                                            {33001, 64},
                                                            {70000, 32}}};
  ForShapesAndUses(kShapes, 1200000,
                   [&](const ProductShape& shape, ProductOut out) {
                     ExpectProduct(shape, out);
                   });
}

// No order of arrival of blocks shows.
TEST_P(Int7ProductsTest, HaveTheSameBitsEveryTime) {
  for (const int capacity : {1, 12, 32}) {
    const Shape shape = {capacity, capacity, 4096 / EveryNth(4),
                         4096 / EveryNth(4)};
    GuardedBuffer<float> x(static_cast<size_t>(capacity) * shape.columns);
    FillNormal(rng_, 1, x.span(0, x.size()));
    GuardedBuffer<int32_t> count(1);
    count[0] = capacity;
    const WeightMatrix* matrix = Quantized(*cuda_, shape, Weight(shape));
    std::vector<GuardedBuffer<float>> outs(
        6 / EveryNth(3),
        GuardedBuffer<float>(static_cast<size_t>(capacity) * shape.rows));
    DeviceCopies copies(*cuda_);
    const Activation* x_on_device = copies.Activations(x);
    const int32_t* count_on_device = copies.Of(count);

    for (GuardedBuffer<float>& out : outs) {
      const absl::Status status =
          cuda_->MatMul({.rows = {.count = count_on_device, .max = capacity},
                         .x = x_on_device,
                         .weight = matrix,
                         .out = nullptr,
                         .out_float = copies.Of(out),
                         .accumulate = false});
      ASSERT_TRUE(status.ok()) << status;
    }
    copies.Fetch();

    for (const GuardedBuffer<float>& out : outs) {
      EXPECT_TRUE(SameBits(out.all(), outs[0].all()));
    }
  }
}

// The product of a matrix with the unit vectors is the matrix: its elements are
// the reference's, bit for bit.
TEST_P(Int7ProductsTest, MatricesAreTheReferences) {
  constexpr int kRows = 50;
  constexpr int kColumns = 32;
  std::vector<float> weight(static_cast<size_t>(kRows) * kColumns);
  for (int r = 0; r < kRows; ++r) {
    FillNormal(rng_, std::ldexp(1.0f, 5 * (r - kRows / 2)),
               std::span(weight).subspan(size_t{kColumns} * r, kColumns));
  }
  for (float& w : weight) w = RoundedToBFloat16(w);
  std::fill_n(weight.begin(), kColumns, 0.0f);
  constexpr int kUnits = cuda::kMaxInt7Rows;  // For every second column.
  GuardedBuffer<float> x(size_t{kUnits} * kColumns);
  for (float& value : x.span(0, x.size())) value = 0;
  for (int i = 0; i < kUnits; ++i) x[size_t{kColumns} * i + 2 * i + i % 2] = 1;
  GuardedBuffer<int32_t> count(1);
  count[0] = kUnits;
  GuardedBuffer<float> got(size_t{kRows} * kUnits);
  GuardedBuffer<float> want(got.size());
  const Shape shape = {kUnits, kUnits, kRows, kColumns};
  DeviceCopies copies(*cuda_);
  MatMulParams params = {.rows = {.count = copies.Of(count), .max = kUnits},
                         .x = copies.Activations(x),
                         .weight = Quantized(*cuda_, shape, weight),
                         .out = nullptr,
                         .out_float = copies.Of(got),
                         .accumulate = false};
  const absl::Status status = cuda_->MatMul(params);
  copies.Fetch();
  ASSERT_TRUE(status.ok()) << status;
  params.rows.count = count.data();
  params.x = AsActivations(x.data());
  params.weight = Quantized(reference_, shape, weight);
  params.out_float = want.data();
  ASSERT_TRUE(reference_.MatMul(params).ok());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << i;
}

TEST_P(Int7ProductsTest, WhatIsNotFiniteIsRefused) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> weight = {1, 2, 3, bad};
    const WeightMatrix* matrix = LoadRows(*cuda_, 2, 2, weight);
    EXPECT_EQ(cuda_->QuantizeMatrix(*matrix).status(),
              absl::InvalidArgumentError("row 1 of a matrix of 2 by 2 has an "
                                         "element that is not finite"));
  }
}

TEST_P(Int7ProductsTest, AreThereForFewRowsAndColumnsInThirtyTwos) {
  const auto products = cuda::Int7Products::Create();
  ASSERT_TRUE(products.ok()) << products.status();
  cuda::Product product = {};
  product.num_rows = 1;
  product.columns = 32;
  if (!(*products)->Takes(product, ElementType::kBFloat16)) {
    GTEST_SKIP() << "no kernels for this GPU";
  }
  EXPECT_FALSE((*products)->Takes(product, ElementType::kFloat32));
  product.columns = 48;
  EXPECT_FALSE((*products)->Takes(product, ElementType::kBFloat16));
  product.columns = 64;
  product.num_rows = cuda::kMaxInt7Rows + 1;
  EXPECT_FALSE((*products)->Takes(product, ElementType::kBFloat16));
}

TEST_P(Int7ProductsTest, TakeAByteForAnElementBesides) {
  const Shape shape = {1, 1, 64, 96};
  const size_t bytes = is_float() ? 4 : 2;
  const WeightMatrix* matrix =
      LoadRows(*cuda_, shape.rows, shape.columns, Weight(shape));
  EXPECT_EQ(cuda_->MatrixBytes(*matrix), bytes * 64 * 96);
  matrix = Quantized(*cuda_, shape, Weight(shape));
  const size_t integers = is_float() ? 0 : size_t{64} * 96 + 64 * sizeof(float);
  EXPECT_EQ(cuda_->MatrixBytes(*matrix), bytes * 64 * 96 + integers);
}

}  // namespace
}  // namespace bole::testing
