// Products with a norm between them, and a gate behind, against the same sums
// in double from what the first product has stored.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/products/stream_product.h"
#include "kernels/cuda/scratch.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/products/matmuls_test.h"
#include "tests/kernels/cuda/products/product_case.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"

namespace bole::testing {
namespace {

constexpr float kEpsilon = 1e-2f;  // Large enough to show.

struct PairShape {
  int capacity;  // N
  int count;     // Rows in use.
  int inputs;    // Columns of the first product's W.
  int width;     // H, which the norm runs over.
  int outputs;   // Columns of the pair's out.
  bool gated;
};

// The second product, from what the first one has stored in `ahead.out`.
struct PairCase {
  PairCase(std::mt19937& rng, const PairShape& s)
      : shape(s),
        ahead(rng, {s.capacity, s.count, s.width, s.inputs},
              ProductOut::kAccumulated),
        norm_weight(NormalVector(rng, s.width)),
        weight(NormalVector(rng, static_cast<size_t>(rows()) * s.width)),
        normed(static_cast<size_t>(s.capacity) * s.width),
        out(static_cast<size_t>(s.capacity) * s.outputs) {
    for (float& w : weight) w = RoundedToBFloat16(w);
  }

  // How many rows the second matrix has.
  int rows() const { return shape.gated ? 2 * shape.outputs : shape.outputs; }

  // Element (n, row) of the second product. The sum itself is of size
  // sqrt(width); each of its terms is computed in float32.
  double Projected(int n, int row) const {
    const size_t first = static_cast<size_t>(n) * shape.width;
    const float* w = &weight[static_cast<size_t>(row) * shape.width];
    double squares = 0;
    double sum = 0;
    for (int c = 0; c < shape.width; ++c) {
      const float x = ahead.out[first + c];
      squares += static_cast<double>(x) * x;
      sum += static_cast<double>(RoundedToBFloat16(x * norm_weight[c])) * w[c];
    }
    return sum / std::sqrt(squares / shape.width + kEpsilon);
  }

  void ExpectOut(double roundoff) const {
    const double summed =
        4.0 * shape.width * kFloatRoundoff * std::sqrt(shape.width);
    ExpectRows(out, shape.count, shape.outputs, roundoff, [&](int n, int i) {
      const double sum = Projected(n, i);
      if (!shape.gated) return Expected{sum, summed};
      return ExpectGated(sum, Projected(n, shape.outputs + i), summed);
    });
  }

  PairShape shape;
  ProductCase ahead;
  std::vector<float> norm_weight;
  std::vector<float> weight;    // [rows, width]
  GuardedBuffer<float> normed;  // [N, width]
  GuardedBuffer<float> out;     // [N, outputs]
};

class ProductPairsTest : public MatMulsTest {
 protected:
  // One behind the other, without a wait between them.
  void ExpectPairs(std::span<const PairShape> shapes) {
    DeviceCopies copies(*cuda_);
    std::deque<PairCase> cases;
    std::vector<cuda::ProductPair> pairs;
    for (const PairShape& shape : shapes) {
      pairs.push_back(OnDevice(cases.emplace_back(rng_, shape), copies));
      ASSERT_TRUE(matmuls_->TakePair(pairs.back(), ElementType::kBFloat16));
    }
    std::vector<GuardedBuffer<float>> residuals;
    residuals.reserve(cases.size());
    for (const PairCase& c : cases) residuals.push_back(c.ahead.out);
    for (const cuda::ProductPair& pair : pairs) {
      const auto scratch =
          scratch_.Get(matmuls_->PairScratchBytes(pair), cuda_->launch());
      ASSERT_TRUE(scratch.ok()) << scratch.status();
      const absl::Status status =
          matmuls_->RunPair(pair, *scratch, cuda_->launch());
      ASSERT_TRUE(status.ok()) << status;
    }
    copies.Fetch();
    for (size_t i = 0; i < cases.size(); ++i) {
      ExpectSums(cases[i], residuals[i]);
      if (HasFailure()) return;
    }
  }

 private:
  cuda::Scratch scratch_;

  cuda::ProductPair OnDevice(PairCase& c, DeviceCopies& copies) {
    const PairShape& shape = c.shape;
    const void* x_on_device = copies.Activations(c.ahead.x);
    void* residual = copies.Activations(c.ahead.out);
    return {
        .ahead = {.num_rows = shape.capacity,
                  .count = copies.Of(c.ahead.count),
                  .rows = shape.width,
                  .columns = shape.inputs,
                  .x = x_on_device,
                  .weight = Matrix(shape.width, shape.inputs, c.ahead.weight),
                  .out = residual,
                  .float_out = false,
                  .accumulate = true},
        .norm_weight = copies.Of(c.norm_weight),
        .epsilon = kEpsilon,
        .behind = {.num_rows = shape.capacity,
                   .count = copies.Of(c.ahead.count),
                   .rows = c.rows(),
                   .columns = shape.width,
                   .x = copies.Activations(c.normed),
                   .weight = Matrix(c.rows(), shape.width, c.weight),
                   .out = copies.Activations(c.out),
                   .float_out = false,
                   .accumulate = false,
                   .gated = shape.gated}};
  }

  // `want`: the residual as it was.
  void ExpectSums(const PairCase& c, GuardedBuffer<float>& want) {
    const PairShape& shape = c.shape;
    SCOPED_TRACE(::testing::Message()
                 << shape.count << " of " << shape.capacity << " rows, "
                 << shape.inputs << " to " << shape.width << " to "
                 << shape.outputs << (shape.gated ? ", gated" : ""));
    ASSERT_TRUE(reference_
                    .MatMul({.rows = {.count = c.ahead.count.data(),
                                      .max = shape.capacity},
                             .x = AsActivations(c.ahead.x.data()),
                             .weight = LoadRows(reference_, shape.width,
                                                shape.inputs, c.ahead.weight),
                             .out = AsActivations(want.data()),
                             .out_float = nullptr,
                             .accumulate = true})
                    .ok());

    c.ahead.ExpectClose(want, roundoff());
    c.ExpectOut(roundoff());
  }

  const void* Matrix(int rows, int columns, const std::vector<float>& content) {
    return static_cast<const cuda::DeviceMatrix*>(
               LoadRows(*cuda_, rows, columns, content))
        ->data;
  }
};

INSTANTIATE_TEST_SUITE_P(BFloat16, ProductPairsTest,
                         ::testing::Values(ElementType::kBFloat16),
                         ElementName);

// One tile or more of a block, tiles that end in the middle, blocks without
// any, warpgroups that divide rows or columns, and sizes of the models.
TEST_P(ProductPairsTest, AreTheirSumsForAnyShape) {
  if (!cuda_->launch().overlaps) GTEST_SKIP() << "no kernels for it";
  constexpr std::array<PairShape, 12> kShapes = {
      {{1, 1, 200, 264, 136, false},
       {1, 1, 256, 264, 136, true},
       {1, 1, 512, 1000, 7, true},
       {1, 1, 264, 2560, 1000, false},
       {1, 1, 264, 5120, 520, true},
       {1, 1, 264, 264, 12352, false},
       {1, 1, 264, 264, 12288, true},
       {1, 1, 264, 328, 17408, true},
       {1, 1, 264, 8448, 264, false},
       {5, 3, 1032, 2560, 264, false},
       {8, 8, 520, 5120, 264, true},
       {8, 0, 520, 520, 264, true}}};
  for (size_t i = 0; i < kShapes.size(); i += EveryNth(2)) {
    ExpectPairs({&kShapes[i], 1});
    if (HasFailure()) return;
  }
}

// A product's blocks start while the one before it still runs.
TEST_P(ProductPairsTest, InTurnReadWhatWasWrittenForThem) {
  if (!cuda_->launch().overlaps) GTEST_SKIP() << "no kernels for it";
  constexpr std::array<PairShape, 9> kShapes = {{{1, 1, 264, 2560, 520, true},
                                                 {1, 1, 264, 2560, 520, true},
                                                 {1, 1, 264, 2560, 264, false},
                                                 {1, 0, 264, 2560, 520, true},
                                                 {1, 1, 264, 264, 2056, false},
                                                 {4, 3, 264, 2560, 520, true},
                                                 {1, 1, 264, 2560, 520, true},
                                                 {1, 1, 264, 5120, 264, false},
                                                 {1, 1, 264, 264, 520, true}}};
  const auto shapes = std::span(kShapes).first(kShapes.size() / EveryNth(2));
  for (int i = 0; i < 2; i += EveryNth(2)) ExpectPairs(shapes);
}

}  // namespace
}  // namespace bole::testing
