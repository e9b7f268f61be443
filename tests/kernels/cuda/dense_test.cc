// The dense operators on the GPU.
#include "kernels/dense.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr std::array kRows = {1, 2, 7, 16, 33, 128};
constexpr std::array kWidths = {8, 64, 200, 256, 1024};

class DenseTest : public CudaTest {
 protected:
  // `used` of `rows` rows.
  GuardedBuffer<float> Random(int rows, int width, int used) {
    GuardedBuffer<float> x(static_cast<size_t>(rows) * width);
    FillNormal(rng_, 1, x.span(0, static_cast<size_t>(used) * width));
    return x;
  }
  static GuardedBuffer<int32_t> Count(int count) {
    GuardedBuffer<int32_t> buffer(1);
    buffer[0] = count;
    return buffer;
  }
  static void ExpectClose(std::span<const float> got,
                          std::span<const float> want, double tolerance) {
    for (size_t i = 0; i < want.size(); ++i) {
      const double bound = tolerance * (std::abs(want[i]) + 1);
      ASSERT_TRUE(std::abs(static_cast<double>(got[i]) - want[i]) <= bound)
          << i << ": " << got[i] << ", expected " << want[i];
    }
  }
};

BOLE_FOR_EACH_ELEMENT(DenseTest);

// In order with the operator that writes what is copied.
TEST_P(DenseTest, CopiesAreExactAndComeInTheirTurn) {
  const int width = 64;
  const int rows = 33;
  GuardedBuffer<float> x = Random(rows, width, rows);
  GuardedBuffer<float> gathered(rows * width);
  GuardedBuffer<float> copied(rows * width);
  GuardedBuffer<int32_t> count = Count(rows);
  std::vector<int32_t> index(rows);
  for (int i = 0; i < rows; ++i) index[i] = rows - 1 - i;
  DeviceCopies copies(*cuda_);
  Activation* const from = copies.Activations(gathered);
  Activation* const to = copies.Activations(copied);
  const RowCount on_device = {.count = copies.Of(count), .max = rows};

  ASSERT_TRUE(cuda_
                  ->GatherRows({.rows = on_device,
                                .width = width,
                                .index = copies.Of(index),
                                .x = copies.Activations(x),
                                .out = from})
                  .ok());
  const absl::Status run =
      cuda_->CopyDevice(to, from, rows * width * ElementBytes(GetParam()));
  ASSERT_TRUE(run.ok()) << run;
  copies.Fetch();

  for (int i = 0; i < rows; ++i) {
    EXPECT_TRUE(SameBits(copied.span(i * width, width),
                         x.span((rows - 1 - i) * width, width)))
        << i;
  }
}

TEST_P(DenseTest, EmbedsAndGathersExactly) {
  const int width = 200;
  const int rows = 9;
  const int used = 7;
  std::vector<float> table = NormalVector(rng_, 50 * 200);
  for (float& x : table) x = RoundedToBFloat16(x);
  std::vector<int32_t> token(rows, 1 << 30);
  for (int i = 0; i < used; ++i) token[i] = UniformInt(rng_, 0, 49);
  GuardedBuffer<int32_t> count = Count(used);
  GuardedBuffer<float> out(rows * width);
  GuardedBuffer<float> gathered(rows * width);
  std::vector<int32_t> index(rows, 1 << 30);
  for (int i = 0; i < used; ++i) index[i] = UniformInt(rng_, 0, used - 1);
  DeviceCopies copies(*cuda_);
  const RowCount on_device = {.count = copies.Of(count), .max = rows};
  Activation* embedded = copies.Activations(out);

  ASSERT_TRUE(cuda_
                  ->Embed({.rows = on_device,
                           .token = copies.Of(token),
                           .table = LoadRows(*cuda_, 50, width, table),
                           .out = embedded})
                  .ok());
  ASSERT_TRUE(cuda_
                  ->GatherRows({.rows = on_device,
                                .width = width,
                                .index = copies.Of(index),
                                .x = embedded,
                                .out = copies.Activations(gathered)})
                  .ok());
  copies.Fetch();

  for (int i = 0; i < used; ++i) {
    const std::span<const float> want(&table[token[i] * width], width);
    EXPECT_TRUE(SameBits(out.span(i * width, width), want)) << i;
    const std::span<const float> from(&table[token[index[i]] * width], width);
    EXPECT_TRUE(SameBits(gathered.span(i * width, width), from)) << i;
  }
  EXPECT_TRUE(std::isnan(out[used * width])) << "a spare row was written";
}

TEST_P(DenseTest, Normalises) {
  for (const int width : kWidths) {
    SCOPED_TRACE(width);
    const int rows = 5;
    GuardedBuffer<float> x = Random(rows, width, 4);
    GuardedBuffer<float> got(static_cast<size_t>(rows) * 2 * width);
    GuardedBuffer<float> want(got.size());
    GuardedBuffer<int32_t> count = Count(4);
    const std::vector<float> weight = NormalVector(rng_, width);
    DeviceCopies copies(*cuda_);
    RmsNormParams params = {.rows = {.count = copies.Of(count), .max = rows},
                            .width = width,
                            .epsilon = 1e-6f,
                            .x = copies.Activations(x),
                            .weight = copies.Of(weight),
                            .out = copies.Activations(got),
                            .out_stride = 2 * width,
                            .out_column = width};

    const absl::Status status = cuda_->RmsNorm(params);
    copies.Fetch();
    params.rows.count = count.data();
    params.x = AsActivations(x.data());
    params.weight = weight.data();
    params.out = AsActivations(want.data());
    ASSERT_TRUE(reference_.RmsNorm(params).ok());

    ASSERT_TRUE(status.ok()) << status;
    for (int row = 0; row < 4; ++row) {
      const size_t at = static_cast<size_t>(2 * row + 1) * width;
      ExpectClose(got.span(at, width), want.span(at, width),
                  2 * roundoff() + 1e-6);
      EXPECT_TRUE(std::isnan(got[at - 1])) << "another column was written";
    }
  }
}

TEST_P(DenseTest, NormalisesWhatTheDrafterReads) {
  constexpr int kTokens = 50;
  constexpr int kUsed = 4;
  for (const int width : kWidths) {
    SCOPED_TRACE(width);
    std::vector<float> table =
        NormalVector(rng_, static_cast<size_t>(kTokens) * width);
    for (float& x : table) x = RoundedToBFloat16(x);
    GuardedBuffer<float> hidden = Random(6, width, 6);
    GuardedBuffer<float> got(static_cast<size_t>(kUsed + 1) * 2 * width);
    GuardedBuffer<float> want(got.size());
    GuardedBuffer<int32_t> count = Count(kUsed);
    const std::vector<float> embedding_norm = NormalVector(rng_, width);
    const std::vector<float> hidden_norm = NormalVector(rng_, width);
    const std::vector<int32_t> token = {3, 49, 0, 3, 1 << 30};
    const std::vector<int32_t> hidden_row = {5, 0, 0, 2, 1 << 30};
    DeviceCopies copies(*cuda_);
    DraftInputsParams params = {
        .rows = {.count = copies.Of(count), .max = kUsed + 1},
        .width = width,
        .epsilon = 1e-6f,
        .token = copies.Of(token),
        .table = LoadRows(*cuda_, kTokens, width, table),
        .embedding_norm = copies.Of(embedding_norm),
        .hidden_row = copies.Of(hidden_row),
        .hidden = copies.Activations(hidden),
        .hidden_norm = copies.Of(hidden_norm),
        .out = copies.Activations(got)};

    const absl::Status status = cuda_->DraftInputs(params);
    copies.Fetch();
    ASSERT_TRUE(status.ok()) << status;
    params = {.rows = {.count = count.data(), .max = kUsed + 1},
              .width = width,
              .epsilon = 1e-6f,
              .token = token.data(),
              .table = LoadRows(reference_, kTokens, width, table),
              .embedding_norm = embedding_norm.data(),
              .hidden_row = hidden_row.data(),
              .hidden = AsActivations(hidden.data()),
              .hidden_norm = hidden_norm.data(),
              .out = AsActivations(want.data())};
    ASSERT_TRUE(reference_.DraftInputs(params).ok());

    const size_t written = static_cast<size_t>(kUsed) * 2 * width;
    ExpectClose(got.span(0, written), want.span(0, written),
                2 * roundoff() + 1e-6);
    EXPECT_TRUE(std::isnan(got[written])) << "a spare row was written";
  }
}

TEST_P(DenseTest, MultipliesByTheGate) {
  for (const int width : kWidths) {
    SCOPED_TRACE(width);
    GuardedBuffer<float> x = Random(5, 2 * width, 4);
    GuardedBuffer<float> got(static_cast<size_t>(5) * width);
    GuardedBuffer<float> want(got.size());
    GuardedBuffer<int32_t> count = Count(4);
    DeviceCopies copies(*cuda_);
    const RowCount on_device = {.count = copies.Of(count), .max = 5};

    ASSERT_TRUE(cuda_
                    ->SiluMul({.rows = on_device,
                               .width = width,
                               .gate_up = copies.Activations(x),
                               .out = copies.Activations(got)})
                    .ok());
    copies.Fetch();
    ASSERT_TRUE(reference_
                    .SiluMul({.rows = {.count = count.data(), .max = 5},
                              .width = width,
                              .gate_up = AsActivations(x.data()),
                              .out = AsActivations(want.data())})
                    .ok());

    const size_t used = static_cast<size_t>(4) * width;
    ExpectClose(got.span(0, used), want.span(0, used), 2 * roundoff() + 1e-6);
    EXPECT_TRUE(std::isnan(got[used])) << "a spare row was written";
  }
}

// Rows beyond the count are computed and mean nothing: a product's shape is its
// capacity.
class MatMulTest : public DenseTest {
 protected:
  void ExpectProduct(int rows, int out_width, int width, bool float_out,
                     bool accumulate) {
    SCOPED_TRACE(::testing::Message()
                 << rows << " rows, " << out_width << " by " << width
                 << (float_out ? ", float out" : "")
                 << (accumulate ? ", accumulated" : ""));
    GuardedBuffer<float> x = Random(rows, width, rows);
    GuardedBuffer<float> got = Random(rows, out_width, rows);
    std::vector<float> weight =
        NormalVector(rng_, static_cast<size_t>(out_width) * width);
    for (float& w : weight) w = RoundedToBFloat16(w);
    GuardedBuffer<int32_t> count = Count(rows);
    DeviceCopies copies(*cuda_);
    MatMulParams params = {.rows = {.count = copies.Of(count), .max = rows},
                           .x = copies.Activations(x),
                           .weight = LoadRows(*cuda_, out_width, width, weight),
                           .out = float_out ? nullptr : copies.Activations(got),
                           .out_float = float_out ? copies.Of(got) : nullptr,
                           .accumulate = accumulate};
    GuardedBuffer<float> want = got;

    const absl::Status status = cuda_->MatMul(params);
    copies.Fetch();
    params.rows.count = count.data();
    params.x = AsActivations(x.data());
    params.weight = LoadRows(reference_, out_width, width, weight);
    if (float_out) params.out_float = want.data();
    if (!float_out) params.out = AsActivations(want.data());
    ASSERT_TRUE(reference_.MatMul(params).ok());

    ASSERT_TRUE(status.ok()) << status;
    // Products of size 1 summed in float32, then rounded to what is stored.
    // cuBLASLt may round the product before it adds it.
    const double product = accumulate ? 3 * std::sqrt(width) : 1;
    const double stored = float_out ? 0 : 2 * roundoff() * product;
    const double summed = 8 * std::sqrt(width) * kFloatRoundoff;
    ExpectClose(got.all(), want.all(),
                stored + summed * std::sqrt(static_cast<double>(width)));
  }
};

BOLE_FOR_EACH_ELEMENT(MatMulTest);

TEST_P(MatMulTest, IsTheProduct) {
  int n = 0;
  for (const int rows : kRows) {
    for (const int width : {8, 256, 1024}) {
      for (const int out_width : {8, 40, 704}) {
        if (n++ % EveryNth(10) != 0) continue;
        ExpectProduct(rows, out_width, width, false, false);
        ExpectProduct(rows, out_width, width, false, true);
        ExpectProduct(rows, out_width, width, true, false);
        if (HasFailure()) return;
      }
    }
  }
}

// A mixture's shared gate is one row.
TEST_P(MatMulTest, TakesOddWidths) {
  ExpectProduct(3, 1, 64, false, false);
  ExpectProduct(5, 7, 200, false, true);
  ExpectProduct(1, 8198, 256, true, false);
}

}  // namespace
}  // namespace bole::testing
