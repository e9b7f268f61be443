// Every checkpoint with reference outputs, cut among two GPUs: what each rank
// has whole, against them. Each rank is a process, because a forward allocates
// memory, for which a process waits until all of its GPUs are idle. Skips with
// fewer than two.
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/communicator.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/worker_service/eval/golden_files.h"
#include "tests/worker_service/eval/rounded_goldens.h"
#include "tests/worker_service/ranks/forked_ranks.h"

namespace bole::testing_support {
namespace {

constexpr int kRanks = 2;
constexpr std::chrono::seconds kDeadline(20);

// Found by a process of its own: one that has asked CUDA cannot fork others
// that use it.
bool HasGpuForEachRank() {
  testing::ForkedRanks asking(1, kDeadline, [](Communicator& /*ranks*/) {
    return std::string(cuda::CheckDevice(kRanks - 1).message());
  });
  return asking.Wait(0) == 0;
}

// But for states and windows, of which each rank has its heads'.
std::map<std::string, TensorError> OfWholeTensors(
    std::map<std::string, TensorError> errors) {
  std::erase_if(errors, [](const auto& error) {
    return error.first.starts_with("state.") ||
           error.first.starts_with("conv.");
  });
  return errors;
}

// By a rank: what is wrong, or nothing.
std::string Compare(const GoldenCheckpoint& checkpoint,
                    const std::map<std::string, TensorError>& noise,
                    ElementType type, Communicator& ranks) {
  const auto backend = cuda::CudaBackend::Create(
      ranks.rank().index, type, /*num_threads=*/1,
      {.ranks = std::shared_ptr<Communicator>(std::shared_ptr<void>(), &ranks),
       .deadline = kDeadline});
  if (!backend.ok()) return backend.status().ToString();
  const auto errors = OfWholeTensors(
      RunGolden(checkpoint, **backend, /*chunk=*/37, TreeSolver::kBlocks));
  if (!errors.contains("tree_logits")) return "no outputs";
  std::string worst;
  const double share = ShareOfBound(errors, noise, &worst);
  // Nobody leaves while others still write to its memory.
  const absl::Status met = ranks.AllGather({}, {});
  if (!met.ok()) return met.ToString();
  return share <= 1 ? "" : absl::StrCat(worst, ": ", share, " of its bound");
}

class RankGoldenCudaTest : public ::testing::TestWithParam<ElementType> {};

// Sums over two ranks are rounded once more than one rank's: a part of the
// noise that the bound is a multiple of.
TEST_P(RankGoldenCudaTest, WhatRanksHaveWholeIsTheReferencesUpToRounding) {
  if (!HasGpuForEachRank()) GTEST_SKIP() << "fewer than " << kRanks << " GPUs";
  for (const GoldenCheckpoint& checkpoint : kGoldenCheckpoints) {
    const auto of_bfloat16 = OfWholeTensors(NoiseOf(checkpoint));
    const auto noise = GetParam() == ElementType::kFloat32
                           ? NoiseOfFloat(of_bfloat16)
                           : of_bfloat16;
    testing::ForkedRanks forked(kRanks, kDeadline, [&](Communicator& ranks) {
      return Compare(checkpoint, noise, GetParam(), ranks);
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(forked.Wait(rank), 0) << checkpoint.name << ", rank " << rank;
    }
  }
}

BOLE_FOR_EACH_ELEMENT(RankGoldenCudaTest);

}  // namespace
}  // namespace bole::testing_support
