// Every checkpoint with reference outputs, cut among two GPUs: what each rank
// has whole, against them.
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "kernels/communicator.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/ranks/on_gpus.h"
#include "tests/worker_service/eval/golden_files.h"
#include "tests/worker_service/eval/rounded_goldens.h"

namespace bole::testing_support {
namespace {

constexpr int kRanks = 2;

// But for states and windows, of which each rank has its heads'.
std::map<std::string, TensorError> OfWholeTensors(
    std::map<std::string, TensorError> errors) {
  std::erase_if(errors, [](const auto& error) {
    return error.first.starts_with("state.") ||
           error.first.starts_with("conv.");
  });
  return errors;
}

class RankGoldenCudaTest : public testing::CudaTest {};

// Sums over two ranks are rounded once more than one rank's: a part of the
// noise that the bound is a multiple of.
TEST_P(RankGoldenCudaTest, WhatRanksHaveWholeIsTheReferencesUpToRounding) {
  if (testing::NumGpus() < kRanks) {
    GTEST_SKIP() << "a forward allocates memory, and so wants a GPU for each "
                    "rank";
  }
  for (const GoldenCheckpoint& checkpoint : kGoldenCheckpoints) {
    const auto of_bfloat16 = OfWholeTensors(NoiseOf(checkpoint));
    const auto noise = is_float() ? NoiseOfFloat(of_bfloat16) : of_bfloat16;
    testing::OnGpus(
        {.num_ranks = kRanks, .type = GetParam()},
        [&](cuda::CudaBackend& backend, Communicator& /*ranks*/) {
          const auto errors = OfWholeTensors(RunGolden(
              checkpoint, backend, /*chunk=*/37, TreeSolver::kBlocks));
          EXPECT_TRUE(errors.contains("tree_logits")) << checkpoint.name;
          std::string worst;
          EXPECT_LE(ShareOfBound(errors, noise, &worst), 1)
              << checkpoint.name << ": " << worst;
        });
  }
}

BOLE_FOR_EACH_ELEMENT(RankGoldenCudaTest);

}  // namespace
}  // namespace bole::testing_support
