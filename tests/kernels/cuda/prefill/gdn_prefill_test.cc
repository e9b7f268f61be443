// Prefill in chunk form on the GPU: heads as the models have them, chunks cut
// at the grid of absolute positions.
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "kernels/row_batch.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/gdn/device_gdn.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

// 1, 2, 3 and 4 value heads for each key head.
GdnShape ModelShape(int i) {
  constexpr std::array kKeyHeads = {1, 1, 2, 1};
  constexpr std::array kValueHeads = {1, 3, 4, 4};
  return {.key_heads = kKeyHeads[i % kKeyHeads.size()],
          .value_heads = kValueHeads[i % kValueHeads.size()],
          .key_dim = 128,
          .value_dim = 128,
          .conv_taps = 4};
}

class GdnPrefillTest : public CudaTest {
 protected:
  struct Chains {
    std::vector<int> lengths;
    std::vector<int> committed;
  };

  GdnProblem MakeProblem(const Chains& chains, const GdnShape& shape,
                         Decay decay, float correlation) {
    std::vector<Parents> trees;
    trees.reserve(chains.lengths.size());
    for (const int length : chains.lengths) {
      trees.push_back(ChainParents(length));
    }
    HostBatch batch = PackTrees(
        trees, {.chains = true, .spare_rows = 70, .spare_requests = 2});
    CommitSomething(rng_, static_cast<int>(trees.size()) + 2, batch);
    for (size_t b = 0; b < trees.size(); ++b) {
      batch.committed[b] = chains.committed[b];
    }
    return GdnProblem(rng_,
                      {.shape = shape,
                       .num_layers = 2,
                       .decay = decay,
                       .key_correlation = correlation},
                      std::move(batch));
  }

  void ExpectClose(std::span<const float> got, std::span<const float> want,
                   double tolerance, const std::string& what) {
    const double error = ExpectSmallError(got, want, tolerance, what);
    worst_ = std::max(worst_, error / tolerance);
  }

  // The output is rounded to bfloat16, by 2^-8 / sqrt(3) / 2 in the mean of
  // mantissas and 2^-9 at most. Within the operator bfloat16 operands stand for
  // 16 bits, so that a state is off by some 2^-16 of the terms it sums, which
  // correlated keys let cancel.
  void ExpectPrefill(GdnProblem got) {
    DeviceCopies copies(*cuda_);
    const DeviceGdn device(got, copies);
    GdnProblem want = got;

    const absl::Status status =
        cuda_->GdnPrefill(device.Core(1, TreeSolver::kBlocks));
    copies.Fetch();
    ASSERT_TRUE(reference_.GdnPrefill(want.Core(1)).ok());

    ASSERT_TRUE(status.ok()) << status;
    const double out_tolerance = is_float() ? 1e-4 : 2.2e-3;
    const double state_tolerance = is_float() ? 5e-5 : 1e-4;
    for (int b = 0; b < want.batch.num_requests(); ++b) {
      const int first = want.batch.first_row[b];
      const int end = want.batch.first_row[b + 1];
      if (first == end) continue;
      for (int head = 0; head < want.shape.value_heads; ++head) {
        const std::string what =
            "request " + std::to_string(b) + ", head " + std::to_string(head);
        ExpectClose(got.Outs(first, end, head), want.Outs(first, end, head),
                    out_tolerance, "out of " + what);
        ExpectClose(got.HeadState(b, 1, head), want.HeadState(b, 1, head),
                    state_tolerance, "state of " + what);
        ASSERT_TRUE(
            SameBits(got.HeadState(b, 0, head), want.HeadState(b, 0, head)))
            << "the other layer's state of " << what;
      }
    }
  }

  double worst_ = 0;
};

BOLE_FOR_EACH_ELEMENT(GdnPrefillTest);

TEST_P(GdnPrefillTest, ChunksStartAtEveryOffsetFromTheGrid) {
  for (int offset = 0; offset < 64; offset += EveryNth(13)) {
    SCOPED_TRACE(::testing::Message() << "offset " << offset);
    const Chains chains = {
        .lengths = {UniformInt(rng_, 1, 64 - offset), UniformInt(rng_, 1, 150),
                    offset % 3 == 0 ? 0 : UniformInt(rng_, 60, 68)},
        .committed = {64 + offset, offset, 128 - offset}};
    ExpectPrefill(MakeProblem(chains, ModelShape(offset),
                              static_cast<Decay>(offset % 3),
                              offset % 2 == 0 ? 0.9f : 0.0f));
    if (HasFailure()) return;
  }
  RecordProperty("worst_error_over_tolerance", std::to_string(worst_));
}

TEST_P(GdnPrefillTest, LongPromptsKeepTheirPrecision) {
  for (const Decay decay : {Decay::kMild, Decay::kMixed, Decay::kExtreme}) {
    for (const float correlation : {0.0f, 0.9f}) {
      SCOPED_TRACE(::testing::Message() << "decay " << static_cast<int>(decay)
                                        << ", correlation " << correlation);
      ExpectPrefill(
          MakeProblem({.lengths = {1500 / EveryNth(10), 64, 700 / EveryNth(10)},
                       .committed = {0, 0, 64 * 7 + 33}},
                      ModelShape(1), decay, correlation));
    }
  }
  RecordProperty("worst_error_over_tolerance", std::to_string(worst_));
}

// More requests than a warp has lanes, most of them short.
TEST_P(GdnPrefillTest, ManyRaggedRequests) {
  Chains chains;
  for (int b = 0; b < 45; ++b) {
    chains.lengths.push_back(b % 7 == 3 ? 0 : UniformInt(rng_, 1, 90));
    chains.committed.push_back(b % 5 == 0 ? 0 : UniformInt(rng_, 1, 300));
  }
  ExpectPrefill(MakeProblem(chains, ModelShape(0), Decay::kMixed, 0.5f));
}

TEST_P(GdnPrefillTest, CutOnTheGridLeavesTheBitsOfTheWhole) {
  constexpr int kRows = 5 * kPrefillGrid + 17;
  constexpr int kCommitted = 40;
  const GdnProblem problem =
      MakeProblem({.lengths = {kRows}, .committed = {kCommitted}},
                  ModelShape(1), Decay::kMild, 0.5f);
  const auto prefill = [&](std::span<const int> ends) {
    GdnProblem p = problem;
    DeviceCopies copies(*cuda_);
    const DeviceGdn device(p, copies);
    int done = 0;
    for (const int end : ends) {
      const std::vector<Parents> trees = {ChainParents(end - done)};
      HostBatch piece = PackTrees(trees, {.chains = true});
      piece.slot[0] = p.batch.slot[0];
      piece.committed[0] = kCommitted + done;
      DeviceCopies piece_copies(*cuda_);
      GdnCoreParams params = CoreFromRow(device, p.batch.max_rows(), 1, done,
                                         ElementBytes(GetParam()));
      params.batch = piece_copies.Of(piece);
      EXPECT_TRUE(cuda_->GdnPrefill(params).ok());
      piece_copies.Fetch();
      done = end;
    }
    copies.Fetch();
    return p;
  };
  constexpr int kFirst = kPrefillGrid - kCommitted;

  const GdnProblem whole = prefill(std::array{kRows});
  const GdnProblem cut = prefill(std::array{kFirst, kFirst + kPrefillGrid,
                                            kFirst + 4 * kPrefillGrid, kRows});

  EXPECT_TRUE(SameBits(whole.out.all(), cut.out.all()));
  EXPECT_TRUE(SameBits(whole.state.all(), cut.state.all()));
  EXPECT_FALSE(SameBits(whole.state.all(), problem.state.all()));
}

}  // namespace
}  // namespace bole::testing
