// Products of few rows by the kernels that stream the weights, against the
// reference.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/stream_product.h"
#include "kernels/dense.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"

namespace bole::testing {
namespace {

struct Shape {
  int capacity;  // N
  int count;     // Of them in use; the others are not a number.
  int rows;
  int columns;
};

cuda::Product Nameless(int num_rows, int rows, int columns) {
  cuda::Product product = {};
  product.num_rows = num_rows;
  product.rows = rows;
  product.columns = columns;
  return product;
}

enum class Out { kElements, kFloats, kAccumulated };

class StreamedProductsTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto matmuls = cuda::MatMuls::Create();
    ASSERT_TRUE(matmuls.ok()) << matmuls.status();
    matmuls_ = *std::move(matmuls);
  }

  // Where the GPU is another, there is nothing to test.
  bool Supported() const {
    return matmuls_->CanStream(Nameless(1, 8, 8), ElementType::kBFloat16);
  }

  void ExpectProduct(const Shape& shape, Out kind) {
    SCOPED_TRACE(::testing::Message()
                 << shape.count << " of " << shape.capacity << " rows, "
                 << shape.rows << " by " << shape.columns << ", out "
                 << static_cast<int>(kind));
    const size_t used = static_cast<size_t>(shape.count) * shape.columns;
    const size_t written = static_cast<size_t>(shape.count) * shape.rows;
    GuardedBuffer<float> x(static_cast<size_t>(shape.capacity) * shape.columns);
    FillNormal(rng_, 1, x.span(0, used));
    GuardedBuffer<float> got(static_cast<size_t>(shape.capacity) * shape.rows);
    if (kind == Out::kAccumulated) FillNormal(rng_, 1, got.span(0, written));
    std::vector<float> weight =
        NormalVector(rng_, static_cast<size_t>(shape.rows) * shape.columns);
    for (float& w : weight) w = RoundedToBFloat16(w);
    GuardedBuffer<int32_t> count(1);
    count[0] = shape.count;
    DeviceCopies copies(*cuda_);
    const void* x_on_device = copies.Activations(x);
    void* out = kind == Out::kFloats
                    ? static_cast<void*>(copies.Of(got))
                    : static_cast<void*>(copies.Activations(got));
    const auto* matrix = static_cast<const cuda::DeviceMatrix*>(
        LoadRows(*cuda_, shape.rows, shape.columns, weight));
    GuardedBuffer<float> want = got;

    const absl::Status status =
        matmuls_->RunStreamed({.num_rows = shape.capacity,
                               .count = copies.Of(count),
                               .rows = shape.rows,
                               .columns = shape.columns,
                               .x = x_on_device,
                               .weight = matrix->data,
                               .out = out,
                               .float_out = kind == Out::kFloats,
                               .accumulate = kind == Out::kAccumulated},
                              cuda_->launch());
    copies.Fetch();
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(
        reference_
            .MatMul({.rows = {.count = count.data(), .max = shape.capacity},
                     .x = AsActivations(x.data()),
                     .weight = LoadRows(reference_, shape.rows, shape.columns,
                                        weight),
                     .out = kind == Out::kFloats ? nullptr
                                                 : AsActivations(want.data()),
                     .out_float = kind == Out::kFloats ? want.data() : nullptr,
                     .accumulate = kind == Out::kAccumulated})
            .ok());

    ExpectClose(got, want, shape, kind);
  }

  // Products of size 1, their sums of size sqrt(columns); one rounding to what
  // is stored, and in float32 one for every product, half a unit each.
  void ExpectClose(const GuardedBuffer<float>& got,
                   const GuardedBuffer<float>& want, const Shape& shape,
                   Out kind) const {
    const double summed = 2.0 * shape.columns * kFloatRoundoff;
    const double stored = kind == Out::kFloats ? 0 : roundoff();
    const size_t written = static_cast<size_t>(shape.count) * shape.rows;
    for (size_t i = 0; i < written; ++i) {
      const double bound =
          stored * std::abs(want[i]) + summed * std::sqrt(shape.columns);
      ASSERT_TRUE(std::abs(static_cast<double>(got[i]) - want[i]) <= bound)
          << i << ": " << got[i] << ", expected " << want[i];
    }
    for (size_t i = written; i < got.size(); ++i) {
      ASSERT_TRUE(std::isnan(got[i])) << "a spare row was written: " << i;
    }
  }

  std::unique_ptr<cuda::MatMuls> matmuls_;
};

INSTANTIATE_TEST_SUITE_P(BFloat16, StreamedProductsTest,
                         ::testing::Values(ElementType::kBFloat16),
                         ElementName);

TEST_P(StreamedProductsTest, AreNotThereForOddColumnsAndManyRows) {
  const cuda::Launch& on = cuda_->launch();
  EXPECT_TRUE(
      absl::IsUnimplemented(matmuls_->RunStreamed(Nameless(1, 8, 7), on)));
  EXPECT_TRUE(absl::IsUnimplemented(
      matmuls_->RunStreamed(Nameless(cuda::kMaxStreamRows + 1, 8, 8), on)));
}

TEST_P(StreamedProductsTest, AreTheReferencesForAnyNumberOfRows) {
  if (!Supported()) GTEST_SKIP() << "no kernels for this GPU";
  for (int rows = 1; rows <= cuda::kMaxStreamRows; ++rows) {
    ExpectProduct({rows, rows, 264, 136}, Out::kElements);
    ExpectProduct({rows, rows - rows / 3, 520, 72}, Out::kFloats);
    if (HasFailure()) return;
  }
}

// Single rows, fewer columns than a chunk, tiles that end in the middle, more
// tiles than blocks, and sizes of the models.
TEST_P(StreamedProductsTest, AreTheReferencesForAnyShape) {
  if (!Supported()) GTEST_SKIP() << "no kernels for this GPU";
  constexpr std::array<std::pair<int, int>, 10> kShapes = {{{1, 8},
                                                            {1, 4096},
                                                            {7, 200},
                                                            {129, 72},
                                                            {1000, 1032},
                                                            {4096, 512},
                                                            {4097, 264},
                                                            {8450, 128},
                                                            {12352, 256},
                                                            {33001, 64}}};
  for (const auto& [rows, columns] : kShapes) {
    for (const int capacity : {1, 5, 16, 17, 32}) {
      for (const Out out : {Out::kElements, Out::kFloats, Out::kAccumulated}) {
        if (capacity > 1 && rows * columns > 2000000) continue;
        ExpectProduct({capacity, capacity, rows, columns}, out);
        ExpectProduct({capacity, capacity / 2, rows, columns}, out);
        if (HasFailure()) return;
      }
    }
  }
}

// No order of arrival of blocks shows.
TEST_P(StreamedProductsTest, HaveTheSameBitsEveryTime) {
  if (!Supported()) GTEST_SKIP() << "no kernels for this GPU";
  constexpr int kRows = 4096;
  constexpr int kColumns = 4096;
  for (const int capacity : {1, 12, 32}) {
    GuardedBuffer<float> x(static_cast<size_t>(capacity) * kColumns);
    FillNormal(rng_, 1, x.span(0, x.size()));
    GuardedBuffer<int32_t> count(1);
    count[0] = capacity;
    const auto* matrix = static_cast<const cuda::DeviceMatrix*>(
        LoadRows(*cuda_, kRows, kColumns,
                 NormalVector(rng_, static_cast<size_t>(kRows) * kColumns)));
    std::vector<GuardedBuffer<float>> outs(
        10, GuardedBuffer<float>(static_cast<size_t>(capacity) * kRows));
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
