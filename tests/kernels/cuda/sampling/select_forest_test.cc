// Selection and packing on the GPU against the reference, bit for bit.
#include <random>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/drafting.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/forest_problem.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr CandidateKind kKinds[] = {
    CandidateKind::kRandom, CandidateKind::kTies, CandidateKind::kAllEqual};

class SelectForestTest : public CudaTest {
 protected:
  void Compare(ForestProblem& got) {
    ForestProblem want = got;
    const absl::Status reference = reference_.SelectForest(want.Params());
    ASSERT_TRUE(reference.ok()) << reference;
    DeviceCopies device(*cuda_);
    const absl::Status run = cuda_->SelectForest(
        got.Params([&](auto& buffer) { return device.Of(buffer); }));
    ASSERT_TRUE(run.ok()) << run;
    ASSERT_NO_FATAL_FAILURE(device.Fetch());
    ASSERT_NO_FATAL_FAILURE(ExpectSameForest(got, want));
  }
};

INSTANTIATE_TEST_SUITE_P(Elements, SelectForestTest,
                         ::testing::Values(ElementType::kFloat32), ElementName);

TEST_P(SelectForestTest, ForestsAreEqual) {
  for (int round = 0; round < 400; round += EveryNth(25)) {
    SCOPED_TRACE(round);
    // More than 64, as in the first round, take another kernel.
    const int requests =
        round == 0 ? 70 : UniformInt(rng_, 1, round % 4 == 0 ? 70 : 5);
    const int nodes = UniformInt(rng_, 1, kMaxTreeNodes);
    ForestProblem problem(
        rng_,
        {.max_requests = requests,
         .draft = {.top_k = UniformInt(rng_, 1, 8),
                   .depth = UniformInt(rng_, 1, 8)},
         .max_rows = UniformInt(rng_, requests, 600),
         .max_nodes_per_tree = nodes,
         .mask_words = (nodes + 31) / 32 + UniformInt(rng_, 0, 1)},
        kKinds[round % 3]);

    ASSERT_NO_FATAL_FAILURE(Compare(problem));
  }
}

TEST_P(SelectForestTest, ForestsOfTheLargestTreesAreEqual) {
  for (int round = 0; round < 6; round += EveryNth(6)) {
    SCOPED_TRACE(round);
    ForestProblem problem(
        rng_,
        {.max_requests = 20 / EveryNth(10),
         .draft = {.top_k = kMaxDraftTopK, .depth = kMaxDraftDepth},
         .max_rows = 2048,
         .max_nodes_per_tree = kMaxTreeNodes,
         .mask_words = kMaxTreeNodes / 32},
        kKinds[round % 3]);

    ASSERT_NO_FATAL_FAILURE(Compare(problem));
  }
}

TEST_P(SelectForestTest, LargerThanIsCompiledIsAnError) {
  SelectForestParams params = {};
  params.max_requests = 1;
  params.shape = {.top_k = 4, .depth = 8};
  params.max_nodes_per_tree = kMaxTreeNodes + 1;

  const absl::Status status = cuda_->SelectForest(params);

  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

}  // namespace
}  // namespace bole::testing
