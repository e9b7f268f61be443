// The two-stage verification, factors and then the Neumann series in tf32,
// against the recurrence in double.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/gdn/device_gdn.h"
#include "tests/kernels/gdn_oracle.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr int kLayer = 1;

// ErrorAnalysis counts every rounding of a term once at its full magnitude,
// where both factors of a tf32 product are rounded. Sums of random roundings
// stay far below that; a term's own share may be twice it.
constexpr double kTf32Roundoff = 1.0 / (1 << 11);
constexpr double kRoundoffs = 4;

class GdnVerifyTwoStageTest : public CudaTest {
 protected:
  GdnProblem MakeProblem(HostBatch batch, int ratio, Decay decay,
                         float correlation) {
    return GdnProblem(rng_,
                      {.shape = {.key_heads = 2,
                                 .value_heads = 2 * ratio,
                                 .key_dim = 128,
                                 .value_dim = 128,
                                 .conv_taps = 4},
                       .num_layers = 2,
                       .decay = decay,
                       .key_correlation = correlation},
                      std::move(batch));
  }

  void Verify(GdnProblem& p) {
    VerifyOnDevice(*cuda_, p, kLayer, TreeSolver::kNeumann);
  }

  // The largest error of a head, in tf32 roundoffs of what its terms are.
  double WorstRoundoffs(const GdnProblem& p, int request, int head) {
    const HeadProblem h = ExtractHead(p, kLayer, request, head);
    const ErrorAnalysis analysis(h);
    const std::vector<double> scale = analysis.Neumann();
    double worst = 0;
    for (int i = 0; i < h.num_rows; ++i) {
      const std::span<const float> got =
          p.Out(p.batch.first_row[request] + i, head);
      for (size_t c = 0; c < got.size(); ++c) {
        const size_t at = i * got.size() + c;
        const double want = analysis.exact().o[at];
        // The output is rounded to bfloat16, by 2^-9 of itself.
        const double error = std::max(
            0.0, std::abs(got[c] - want) - std::abs(want) * (1.0 / 512) * 1.1);
        const double unit = kTf32Roundoff * scale[at] + 1e-37;
        worst = std::isnan(got[c]) ? INFINITY : std::max(worst, error / unit);
      }
    }
    return worst;
  }

  void ExpectAccurate(const GdnProblem& p) {
    for (int b = 0; b < p.batch.num_requests(); ++b) {
      const int head = UniformInt(rng_, 0, p.shape.value_heads - 1);
      ASSERT_LE(WorstRoundoffs(p, b, head), kRoundoffs)
          << "request " << b << ", head " << head;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(BFloat16, GdnVerifyTwoStageTest,
                         ::testing::Values(ElementType::kBFloat16),
                         ElementName);

// Requests of several sizes, one of them fresh, one without rows.
HostBatch Ragged(std::mt19937& rng, int num_nodes, int num_requests) {
  std::vector<Parents> trees = {{}};
  while (static_cast<int>(trees.size()) < num_requests) {
    const int n = trees.size() == 1 ? num_nodes : UniformInt(rng, 1, num_nodes);
    trees.push_back(RandomParentsOf(rng, n));
  }
  HostBatch batch = PackTrees(trees, {.spare_rows = 3, .spare_requests = 2});
  CommitSomething(rng, num_requests + 2, batch);
  batch.committed[2] = 0;
  return batch;
}

// Few heads and many choose other tiles; a stride of 2 leaves both.
TEST_P(GdnVerifyTwoStageTest, TreesOfEverySize) {
  for (size_t n = EveryNth(2) - 1; n < std::size(kEdgeSizes);
       n += EveryNth(2)) {
    const int num_nodes = kEdgeSizes[n];
    SCOPED_TRACE(num_nodes);
    const int num_requests = n / 2 % 2 == 0 ? 4 : 24;
    GdnProblem p = MakeProblem(
        Ragged(rng_, num_nodes, num_requests), static_cast<int>(n % 4) + 1,
        static_cast<Decay>(n % 3), n % 2 == 0 ? 0.5f : 0.0f);
    Verify(p);
    if (!HasFailure()) ExpectAccurate(p);
    if (HasFailure()) return;
  }
}

TEST_P(GdnVerifyTwoStageTest, Chains) {
  for (const int length : {1, 9, 40, 85}) {  // Together up to 128 rows.
    SCOPED_TRACE(length);
    const std::vector<Parents> chains = {ChainParents(length),
                                         ChainParents(length / 2 + 1)};
    HostBatch batch = PackTrees(chains, {.chains = true});
    CommitSomething(rng_, 2, batch);
    GdnProblem p = MakeProblem(std::move(batch), 3, Decay::kMild, 0);
    Verify(p);
    if (!HasFailure()) ExpectAccurate(p);
    if (HasFailure()) return;
  }
}

TEST_P(GdnVerifyTwoStageTest, RunsGiveTheSameBits) {
  GdnProblem p = MakeProblem(Ragged(rng_, 128, 9), 3, Decay::kMixed, 0);
  GdnProblem again = p;
  Verify(p);
  Verify(again);
  EXPECT_TRUE(SameBits(p.out.all(), again.out.all()));
}

}  // namespace
}  // namespace bole::testing
