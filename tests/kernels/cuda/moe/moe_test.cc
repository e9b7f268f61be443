// Mixtures of experts on the GPU.
#include "kernels/cuda/moe/moe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

#include "absl/status/status.h"
#include "cuda_runtime_api.h"
#include "gtest/gtest.h"
#include "kernels/dense.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/moe/moe_operator_test.h"
#include "tests/kernels/cuda/moe/moe_problem.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

class MoeTest : public MoeOperatorTest {};

// More rows are computed by kernels that add up in another order.
constexpr int kMostFewRows = 128;

MoeSizes RandomSizes(std::mt19937& rng) {
  const int num_experts = UniformInt(rng, 1, 70);
  return {.num_rows = UniformInt(rng, 0, 30),
          .hidden = UniformInt(rng, 1, 80),
          .num_experts = num_experts,
          .experts_per_token = UniformInt(rng, 1, std::min(num_experts, 12)),
          .width = UniformInt(rng, 1, 50),
          .shared_width = UniformInt(rng, 1, 50)};
}

BOLE_FOR_EACH_ELEMENT(MoeTest);

TEST_P(MoeTest, IsTheReferenceOnRandomSizes) {
  for (int round = 0; round < 15; round += EveryNth(3)) {
    const MoeSizes sizes = RandomSizes(rng_);
    SCOPED_TRACE(::testing::Message()
                 << "round " << round << ": " << Text(sizes));
    MoeProblem p(rng_, sizes);

    ExpectIsTheReference(p);
  }
}

// Also with experts that every row chose, and that one row chose.
TEST_P(MoeTest, IsTheReferenceOnSizesOfModels) {
  constexpr MoeSizes kSizes[] = {{.num_rows = 1,
                                  .hidden = 512,
                                  .num_experts = 256,
                                  .experts_per_token = 8,
                                  .width = 64,
                                  .shared_width = 64},
                                 {.num_rows = 1,
                                  .hidden = 2048,
                                  .num_experts = 3,
                                  .experts_per_token = 2,
                                  .width = 512,
                                  .shared_width = 512},
                                 {.num_rows = 6,
                                  .hidden = 3072,
                                  .num_experts = 2,
                                  .experts_per_token = 1,
                                  .width = 256,
                                  .shared_width = 512},
                                 {.num_rows = 30,
                                  .hidden = 4096,
                                  .num_experts = 1,
                                  .experts_per_token = 1,
                                  .width = 256,
                                  .shared_width = 256},
                                 {.num_rows = 9,
                                  .hidden = 256,
                                  .num_experts = 70,
                                  .experts_per_token = 16,
                                  .width = 256,
                                  .shared_width = 256},
                                 {.num_rows = 100,
                                  .hidden = 256,
                                  .num_experts = 16,
                                  .experts_per_token = 16,
                                  .width = 32,
                                  .shared_width = 128},
                                 {.num_rows = 600,
                                  .hidden = 64,
                                  .num_experts = 512,
                                  .experts_per_token = 10,
                                  .width = 16,
                                  .shared_width = 8},
                                 {.num_rows = 64,
                                  .hidden = 96,
                                  .num_experts = 20,
                                  .experts_per_token = 8,
                                  .width = 32,
                                  .shared_width = 160}};
  for (const MoeSizes& sizes : kSizes) {
    SCOPED_TRACE(Text(sizes));
    MoeProblem p(rng_, sizes);

    ExpectIsTheReference(p);
  }
}

// What was there before is not read: it is NaN. For plain kernels, for tensor
// cores, and streamed.
TEST_P(MoeTest, WritesWithoutReading) {
  constexpr MoeSizes kSizes[] = {{.num_rows = 5,
                                  .hidden = 40,
                                  .num_experts = 7,
                                  .experts_per_token = 2,
                                  .width = 12,
                                  .shared_width = 20},
                                 {.num_rows = 12,
                                  .hidden = 96,
                                  .num_experts = 20,
                                  .experts_per_token = 8,
                                  .width = 32,
                                  .shared_width = 64},
                                 {.num_rows = 12,
                                  .hidden = 256,
                                  .num_experts = 10,
                                  .experts_per_token = 8,
                                  .width = 256,
                                  .shared_width = 512}};
  for (const MoeSizes& sizes : kSizes) {
    SCOPED_TRACE(Text(sizes));
    MoeProblem p(rng_, sizes);
    p.accumulate = false;
    std::ranges::fill(p.out.span(0, p.used()), NAN);

    ExpectIsTheReference(p);
  }
}

TEST_P(MoeTest, TiesGoToTheLowerExpertAndTheRestIsNotRead) {
  constexpr MoeSizes kSizes[] = {{.num_rows = 20,
                                  .hidden = 40,
                                  .num_experts = 50,
                                  .experts_per_token = 5,
                                  .width = 12,
                                  .shared_width = 20},
                                 {.num_rows = 20,
                                  .hidden = 256,
                                  .num_experts = 50,
                                  .experts_per_token = 5,
                                  .width = 256,
                                  .shared_width = 256}};
  for (const MoeSizes& sizes : kSizes) {
    SCOPED_TRACE(Text(sizes));
    MoeProblem p(rng_, sizes);
    std::ranges::fill(p.router, 0.5f);
    for (int e = 5; e < 50; ++e) std::ranges::fill(p.experts[e].down, NAN);

    ExpectIsTheReference(p);
  }
}

TEST_P(MoeTest, ARowHasTheBitsItHasAlone) {
  constexpr MoeSizes kSizes[] = {{.num_rows = 40,
                                  .hidden = 70,
                                  .num_experts = 9,
                                  .experts_per_token = 3,
                                  .width = 33,
                                  .shared_width = 20},
                                 {.num_rows = 126,
                                  .hidden = 512,
                                  .num_experts = 9,
                                  .experts_per_token = 3,
                                  .width = 256,
                                  .shared_width = 256},
                                 {.num_rows = 70,
                                  .hidden = 288,
                                  .num_experts = 9,
                                  .experts_per_token = 3,
                                  .width = 96,
                                  .shared_width = 32}};
  for (const MoeSizes& sizes : kSizes) {
    SCOPED_TRACE(Text(sizes));
    MoeProblem batch(rng_, sizes);
    const LoadedMoe weights(*cuda_, batch);
    const MoeProblem given = Run(weights, batch);

    for (int row = 0; row < sizes.num_rows; row += 7 * EveryNth(3)) {
      MoeProblem alone = given;
      alone.sizes.num_rows = 1;
      alone.count[0] = 1;
      if (batch.capacity <= kMostFewRows) alone.capacity = 1 + kSpareRows;
      const size_t first = static_cast<size_t>(row) * sizes.hidden;
      std::ranges::copy(given.x.span(first, sizes.hidden), alone.x.data());
      std::ranges::copy(given.out.span(first, sizes.hidden), alone.out.data());
      Run(weights, alone);

      EXPECT_TRUE(SameBits(alone.OutRow(0), batch.OutRow(row)))
          << "row " << row;
    }
  }
}

TEST_P(MoeTest, AllocatesNothingWithinACapture) {
  MoeProblem p(rng_, {.num_rows = 3,
                      .hidden = 40,
                      .num_experts = 4,
                      .experts_per_token = 2,
                      .width = 8,
                      .shared_width = 8});
  const LoadedMoe known(*cuda_, p);
  const LoadedMoe unknown(*cuda_, p);
  Run(known, p);
  MoeParams params = known.Params(2);
  params.rows.max = p.sizes.num_rows;

  ASSERT_EQ(
      cudaStreamBeginCapture(cuda_->stream(), cudaStreamCaptureModeThreadLocal),
      cudaSuccess);
  const absl::Status fits = cuda_->Moe(params);
  params = unknown.Params(2);
  params.rows.max = p.sizes.num_rows;
  const absl::Status other_experts = cuda_->Moe(params);
  params = known.Params(2);
  params.rows.max = 1000;
  const absl::Status more_rows = cuda_->Moe(params);
  cudaGraph_t graph = nullptr;
  const cudaError_t end = cudaStreamEndCapture(cuda_->stream(), &graph);

  EXPECT_EQ(end, cudaSuccess) << cudaGetErrorString(end);
  EXPECT_TRUE(fits.ok()) << fits;
  EXPECT_EQ(other_experts.code(), absl::StatusCode::kFailedPrecondition)
      << other_experts;
  EXPECT_EQ(more_rows.code(), absl::StatusCode::kFailedPrecondition)
      << more_rows;
  if (graph != nullptr) cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace bole::testing
