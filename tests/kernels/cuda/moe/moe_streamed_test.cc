// Mixtures of experts for few rows, whose weights are streamed. They are in
// bfloat16, and sizes are multiples of 256.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/dense.h"
#include "kernels/generate.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/moe/moe_operator_test.h"
#include "tests/kernels/cuda/moe/moe_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

class MoeStreamedTest : public MoeOperatorTest {};

INSTANTIATE_TEST_SUITE_P(Elements, MoeStreamedTest,
                         ::testing::Values(ElementType::kBFloat16),
                         ElementName);

// An expert may have more rows than fit one group (kGroupEntries).
MoeSizes RandomSizes(std::mt19937& rng) {
  const int num_experts = UniformInt(rng, 1, 12);
  return {.num_rows = UniformInt(rng, 0, 1) == 0 ? UniformInt(rng, 0, 8)
                                                 : UniformInt(rng, 9, 126),
          .hidden = 256 * UniformInt(rng, 1, 4),
          .num_experts = num_experts,
          .experts_per_token = UniformInt(rng, 1, num_experts),
          .width = 256 * UniformInt(rng, 1, 2),
          .shared_width = 256 * UniformInt(rng, 1, 3)};
}

TEST_P(MoeStreamedTest, IsTheReferenceOnRandomSizes) {
  for (int round = 0; round < 9; round += EveryNth(3)) {
    const MoeSizes sizes = RandomSizes(rng_);
    SCOPED_TRACE(::testing::Message()
                 << "round " << round << ": " << Text(sizes));
    MoeProblem p(rng_, sizes);

    ExpectIsTheReference(p);
  }
}

// The sizes are those of a real model, for which the capacity (params.rows.max)
// decides which kernels compute the result.
TEST_P(MoeStreamedTest, ManyExpertsAreTheSameAtEveryCapacity) {
  constexpr int kHidden = 2048;
  constexpr int kWidth = 512;
  constexpr int kExperts = 256;
  uint32_t stream = 0;
  const auto matrix = [&](int rows, int columns) {
    const float deviation = 1 / std::sqrt(static_cast<float>(columns));
    return *cuda_->GenerateMatrix(
        {.pattern = MatrixPattern::kRandom,
         .rows = rows,
         .columns = columns,
         .seed = 1,
         .stream = stream++,
         .num_blocks = 1,
         .blocks = {
             {.end = rows, .deviation = deviation, .shift = 0, .gain = 0}}});
  };
  MoeParams params = {.rows = {},
                      .experts_per_token = 8,
                      .x = nullptr,
                      .router = matrix(kExperts, kHidden),
                      .gate_up = {},
                      .down = {},
                      .shared_gate = matrix(1, kHidden),
                      .shared_gate_up = matrix(2 * kWidth, kHidden),
                      .shared_down = matrix(kHidden, kWidth),
                      .out = nullptr,
                      .accumulate = false};
  std::vector<const WeightMatrix*> gate_ups;
  std::vector<const WeightMatrix*> downs;
  for (int e = 0; e < kExperts; ++e) {
    gate_ups.push_back(matrix(2 * kWidth, kHidden));
    downs.push_back(matrix(kHidden, kWidth));
  }
  params.gate_up = gate_ups;
  params.down = downs;
  constexpr int kMany = 130;
  // All weights take racecheck minutes. Groups of more entries are among the
  // random sizes.
  const int most_rows = kMany / EveryNth(8);
  for (const int num_rows : {1, 2, 8, 9, 16, 17, 33, 64, 65, 128}) {
    if (num_rows > most_rows) break;
    SCOPED_TRACE(::testing::Message() << num_rows << " rows");
    GuardedBuffer<int32_t> count(1);
    GuardedBuffer<float> x(size_t{kMany} * kHidden);
    GuardedBuffer<float> few(x.size());
    GuardedBuffer<float> many(x.size());
    count[0] = num_rows;
    FillNormal(rng_, 1, x.span(0, static_cast<size_t>(num_rows) * kHidden));
    DeviceCopies copies(*cuda_);
    params.x = copies.Activations(x);
    params.out = copies.Activations(few);
    params.rows = {.count = copies.Of(count), .max = num_rows};
    ASSERT_TRUE(cuda_->Moe(params).ok());
    params.out = copies.Activations(many);
    params.rows.max = kMany;
    ASSERT_TRUE(cuda_->Moe(params).ok());
    copies.Fetch();

    for (int row = 0; row < num_rows; ++row) {
      const size_t first = static_cast<size_t>(row) * kHidden;
      EXPECT_LT(
          RelativeRmsError(few.span(first, kHidden), many.span(first, kHidden)),
          2 * roundoff())
          << "row " << row;
    }
  }
}

}  // namespace
}  // namespace bole::testing
