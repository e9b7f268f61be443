// The trees of a forest through a whole linear layer in one call.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/gdn/device_front.h"
#include "tests/kernels/cuda/gdn/device_gdn.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

// 1, 2, 3, 4 and 5 value heads for each key head; as many as a GPU has room for
// at a time, and more.
constexpr std::array kShapes = {
    GdnShape{4, 4, 128, 128, 4},   GdnShape{2, 4, 128, 128, 4},
    GdnShape{3, 9, 128, 128, 4},   GdnShape{2, 8, 128, 128, 4},
    GdnShape{2, 10, 128, 128, 4},  GdnShape{16, 32, 128, 128, 4},
    GdnShape{16, 48, 128, 128, 4}, GdnShape{2, 6, 128, 64, 4},
};

class GdnVerifyLayerTest : public CudaTest {
 protected:
  // Ragged requests, one of them fresh, one without rows.
  FrontProblem MakeProblem(const GdnShape& shape, int num_nodes,
                           int num_requests) {
    std::vector<Parents> trees;
    for (int b = 0; b < num_requests; ++b) {
      const int n = b == 0   ? num_nodes
                    : b == 2 ? 0
                             : UniformInt(rng_, 1, num_nodes);
      trees.push_back(RandomParentsOf(rng_, n));
    }
    HostBatch batch = PackTrees(trees, {.spare_rows = 3, .spare_requests = 1});
    CommitSomething(rng_, num_requests + 2, batch);
    if (num_requests > 1) batch.committed[1] = 0;
    return FrontProblem(rng_, std::move(batch), shape);
  }

  // By the operator, or by the three that define it.
  LayerResult Verify(const FrontProblem& problem,
                     std::vector<float>& norm_weight, bool at_once) {
    LayerResult result(problem);
    FrontProblem& p = result.problem;
    DeviceCopies copies(*cuda_);
    const DeviceFront device(p, copies);
    const GdnVerifyLayerParams params = {
        .conv = device.Conv(1),
        .core = device.gdn.Core(1, TreeSolver::kBlocks),
        .norm = device.Norm(copies.Of(norm_weight),
                            copies.Activations(result.out))};
    const absl::Status status =
        at_once ? cuda_->GdnVerifyLayer(params)
                : cuda_->OperatorSet::GdnVerifyLayer(params);
    copies.Fetch();
    EXPECT_TRUE(status.ok()) << status;
    return result;
  }

  // The factors, which a commit reads, have the same bits; the outputs differ
  // where a sum in another order is rounded to the other neighbour: of U's
  // products by 1e-5 of a head, rarely.
  void ExpectSame(const LayerResult& got, const LayerResult& want) {
    const GdnProblem& g = got.problem.gdn;
    const GdnProblem& w = want.problem.gdn;
    EXPECT_TRUE(SameBits(g.raw.all(), w.raw.all())) << "raw rows";
    EXPECT_TRUE(SameBits(g.k.all(), w.k.all())) << "keys";
    EXPECT_TRUE(SameBits(g.v.all(), w.v.all())) << "values";
    EXPECT_TRUE(SameBits(g.k_scale.all(), w.k_scale.all())) << "k_scale";
    EXPECT_TRUE(SameBits(g.beta.all(), w.beta.all())) << "beta";
    EXPECT_TRUE(SameBits(g.log_decay.all(), w.log_decay.all())) << "log_decay";
    EXPECT_TRUE(SameBits(g.state.all(), w.state.all())) << "states";
    EXPECT_TRUE(SameBits(g.window.all(), w.window.all())) << "windows";
    ExpectSameOutputs(got, want);
  }

  void ExpectSameOutputs(const LayerResult& got, const LayerResult& want) {
    const GdnProblem& p = want.problem.gdn;
    const size_t width = p.shape.value_dim;
    const size_t heads =
        static_cast<size_t>(p.batch.num_rows()) * p.shape.value_heads;
    int64_t differ = 0;
    for (size_t at = 0; at < heads; ++at) {
      const std::span<const float> g = got.out.span(at * width, width);
      const std::span<const float> w = want.out.span(at * width, width);
      double square = 0;
      for (const float x : w) square += static_cast<double>(x) * x;
      const double rms = std::sqrt(square / static_cast<double>(width));
      for (size_t c = 0; c < width; ++c) {
        // Two units in the last place of the element, and of what lies under
        // it in the head.
        ASSERT_TRUE(std::abs(g[c] - w[c]) <=
                    4 * roundoff() * (std::abs(w[c]) + 0.01 * rms))
            << "row " << at / p.shape.value_heads << ", head "
            << at % p.shape.value_heads << ", column " << c << ": " << g[c]
            << ", expected " << w[c];
        if (g[c] != w[c]) ++differ;
      }
    }
    EXPECT_LE(differ, 0.02 * static_cast<double>(heads * width));
    const size_t used = heads * width;
    EXPECT_TRUE(SameBits(got.out.span(used, got.out.size() - used),
                         want.out.span(used, want.out.size() - used)))
        << "rows of no one";
  }
};

BOLE_FOR_EACH_ELEMENT(GdnVerifyLayerTest);

TEST_P(GdnVerifyLayerTest, ComputesWhatTheThreeOperatorsDo) {
  int n = 0;
  for (const int num_nodes : kEdgeSizes) {
    for (const int num_requests : {1, 4}) {
      const GdnShape& shape = kShapes[n % kShapes.size()];
      // Plain kernels, of which many heads would take long.
      if (n++ % EveryNth(is_float() ? 16 : 7) != 0) continue;
      SCOPED_TRACE(::testing::Message()
                   << num_nodes << " nodes, " << num_requests << " requests, "
                   << shape.value_heads << " heads of " << shape.key_heads);
      const FrontProblem problem = MakeProblem(shape, num_nodes, num_requests);
      std::vector<float> norm_weight = NormalVector(rng_, shape.value_dim);

      const LayerResult got = Verify(problem, norm_weight, /*at_once=*/true);
      const LayerResult want = Verify(problem, norm_weight, /*at_once=*/false);

      ExpectSame(got, want);
      if (HasFailure()) return;
    }
  }
}

TEST_P(GdnVerifyLayerTest, TakesChains) {
  for (const int length : {5, 64, 128}) {
    // A chain's mask could have as many nodes as there are rows.
    if (is_float() && length > 64 / EveryNth(2)) continue;
    SCOPED_TRACE(length);
    const std::vector<Parents> chains = {ChainParents(length),
                                         ChainParents(length - 1)};
    HostBatch batch = PackTrees(chains, {.chains = true});
    CommitSomething(rng_, 2, batch);
    const FrontProblem problem(rng_, std::move(batch),
                               GdnShape{4, 8, 128, 128, 4});
    std::vector<float> norm_weight = NormalVector(rng_, 128);

    const LayerResult got = Verify(problem, norm_weight, /*at_once=*/true);
    const LayerResult want = Verify(problem, norm_weight, /*at_once=*/false);

    ExpectSame(got, want);
    if (HasFailure()) return;
  }
}

TEST_P(GdnVerifyLayerTest, RunsGiveTheSameBits) {
  const int part = is_float() ? EveryNth(8) : 1;
  const FrontProblem problem =
      MakeProblem(GdnShape{16 / part, 32 / part, 128, 128, 4}, 64, 1);
  std::vector<float> norm_weight = NormalVector(rng_, 128);

  const LayerResult first = Verify(problem, norm_weight, /*at_once=*/true);
  const LayerResult second = Verify(problem, norm_weight, /*at_once=*/true);

  EXPECT_TRUE(SameBits(first.out.all(), second.out.all()));
}

}  // namespace
}  // namespace bole::testing
