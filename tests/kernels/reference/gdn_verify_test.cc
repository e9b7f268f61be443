// The closed form of verification against the node-by-node recurrence.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "kernels/reference/gdn_core.h"
#include "tests/kernels/gdn_oracle.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::ChainParents;
using ::bole::testing::CommitSomething;
using ::bole::testing::Decay;
using ::bole::testing::ErrorAnalysis;
using ::bole::testing::ExtractHead;
using ::bole::testing::GdnProblem;
using ::bole::testing::GdnProblemOptions;
using ::bole::testing::HeadProblem;
using ::bole::testing::HostBatch;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::PackTrees;
using ::bole::testing::Parents;
using ::bole::testing::Poison;
using ::bole::testing::RandomParents;
using ::bole::testing::RelativeRmsError;
using ::bole::testing::RunRecurrence;
using ::bole::testing::SameBits;
using ::bole::testing::TreeOptions;
using ::bole::testing::UniformInt;

// ErrorAnalysis counts every rounding once at its full magnitude. A sum of n
// products of random sign is rounded n times, but at partial sums that grow
// like sqrt(k): together about n / sqrt(6) roundoffs of one product, less than
// the n that the scale counts, whatever n. So a small factor covers all sizes;
// the largest seen over these tests is 2.
constexpr double kRoundoffs = 4;

constexpr std::array kSolvers = {TreeSolver::kBlocks, TreeSolver::kNeumann,
                                 TreeSolver::kSerial};

struct Case {
  TreeOptions tree;
  GdnProblemOptions problem;
  bool committed;
};

GdnProblem MakeProblem(std::mt19937& rng, const Case& c) {
  const std::vector<Parents> trees = {RandomParents(rng, c.tree)};
  HostBatch batch = PackTrees(trees, {.spare_rows = 3, .spare_requests = 1});
  if (c.committed) CommitSomething(rng, 1 + c.problem.spare_slots, batch);
  return GdnProblem(rng, c.problem, std::move(batch));
}

std::vector<float> HeadOutput(const GdnProblem& p, int num_rows, int head) {
  std::vector<float> out;
  for (int i = 0; i < num_rows; ++i) {
    const auto row = p.Out(i, head);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

// The largest error of `got` in units of its scale.
double WorstRoundoffs(const std::vector<float>& got,
                      const std::vector<double>& want,
                      const std::vector<double>& scale) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    // Underflow may take the last bits of what is below the normal range.
    const double unit = kFloatRoundoff * scale[i] + 1e-37;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error / unit);
  }
  return worst;
}

// Every solver, every head of request 0.
void ExpectMatchesRecurrence(GdnProblem& p) {
  ThreadPool pool(2);
  std::array<std::vector<std::vector<float>>, kSolvers.size()> got;
  const int num_rows = p.batch.num_rows();
  for (size_t s = 0; s < kSolvers.size(); ++s) {
    std::fill_n(p.out.data(), p.out.size(), Poison<float>());
    GdnVerify(p.Core(0, kSolvers[s]), pool);
    for (int head = 0; head < p.shape.value_heads; ++head) {
      got[s].push_back(HeadOutput(p, num_rows, head));
    }
  }

  for (int head = 0; head < p.shape.value_heads; ++head) {
    const HeadProblem h = ExtractHead(p, 0, 0, head);
    const ErrorAnalysis scale(h);
    const std::vector<double>& want = scale.exact().o;
    EXPECT_LE(WorstRoundoffs(got[0][head], want, scale.Blocks()), kRoundoffs);
    EXPECT_LE(WorstRoundoffs(got[1][head], want, scale.Neumann()), kRoundoffs);
    EXPECT_LE(WorstRoundoffs(got[2][head], want, scale.Serial()), kRoundoffs);
  }
}

TEST(GdnVerifyTest, EverySolverIsTheRecurrenceOnTreesOfEverySize) {
  constexpr std::array kDims = {1, 7, 16, 24, 128};
  constexpr std::array kCorrelations = {0.0f, 0.5f, 0.95f};
  std::mt19937 rng(1);
  for (int num_nodes = 1; num_nodes <= 128; ++num_nodes) {
    SCOPED_TRACE(num_nodes);
    const int key_heads = UniformInt(rng, 1, 2);
    const int ratio = 1 + num_nodes % 4;
    GdnProblem problem = MakeProblem(
        rng,
        {.tree = {.num_nodes = num_nodes,
                  .max_depth = UniformInt(rng, 1, 16),
                  .max_roots = UniformInt(rng, 1, 4)},
         .problem = {.shape = {.key_heads = key_heads,
                               .value_heads = key_heads * ratio,
                               .key_dim = kDims[UniformInt(rng, 0, 4)],
                               .value_dim = kDims[UniformInt(rng, 0, 4)],
                               .conv_taps = 4},
                     .decay = static_cast<Decay>(UniformInt(rng, 0, 2)),
                     .key_correlation = kCorrelations[UniformInt(rng, 0, 2)]},
         .committed = num_nodes % 5 != 0});

    ExpectMatchesRecurrence(problem);
  }
}

GdnProblem MakeChain(std::mt19937& rng, int num_nodes,
                     const GdnProblemOptions& options) {
  const std::vector<Parents> trees = {ChainParents(num_nodes)};
  HostBatch batch = PackTrees(trees);
  CommitSomething(rng, 1, batch);
  return GdnProblem(rng, options, std::move(batch));
}

constexpr GdnShape kOneHead = {.key_heads = 1,
                               .value_heads = 1,
                               .key_dim = 16,
                               .value_dim = 16,
                               .conv_taps = 4};

TEST(GdnVerifyTest, RatiosOfDecayProductsOverflowWhereDifferencesOfLogsDoNot) {
  constexpr int kNodes = 17;
  std::mt19937 rng(2);
  GdnProblem problem = MakeChain(rng, kNodes, {.shape = kOneHead});
  std::vector<float> decay_product;
  for (int i = 0; i < kNodes; ++i) {
    problem.log_decay[i] = -8;
    const float before = i == 0 ? 1 : decay_product[i - 1];
    decay_product.push_back(before * std::exp(problem.log_decay[i]));
  }

  // After twelve nodes at -8, P is below 1 / FLT_MAX and D_P^-1 is infinite;
  // one node later P is 0 and the ratio is 0 / 0. Its true value is exp(-8).
  EXPECT_TRUE(std::isinf(1 / decay_product[11]));
  EXPECT_TRUE(std::isnan(decay_product[12] * (1 / decay_product[11])));
  EXPECT_TRUE(std::isnan(decay_product[16] / decay_product[15]));
  ExpectMatchesRecurrence(problem);
}

// A chain of depth 16 with nearly equal keys, open gates and no forgetting.
GdnProblem CorrelatedChain(std::mt19937& rng) {
  constexpr int kNodes = 17;
  GdnProblem problem = MakeChain(rng, kNodes,
                                 {.shape = {.key_heads = 1,
                                            .value_heads = 1,
                                            .key_dim = 64,
                                            .value_dim = 64,
                                            .conv_taps = 4},
                                  .key_correlation = 0.95f});
  for (int i = 0; i < kNodes; ++i) {
    problem.beta[i] = 0.99f;
    problem.log_decay[i] = 0;
  }
  return problem;
}

// G is about 0.94 below the diagonal. The terms of the series reach
// binomial(15, 7) 0.94^8 = 4e3 times R before they cancel, and take that many
// roundoffs along. The blocks see entries of (I + G)^-1, which are below 1.
TEST(GdnVerifyTest, NeumannLosesThreeDigitsOnCorrelatedChainsAndBlocksDoNot) {
  ThreadPool pool(1);
  std::mt19937 rng(3);
  GdnProblem problem = CorrelatedChain(rng);
  const std::vector<double> want =
      RunRecurrence(ExtractHead(problem, 0, 0, 0)).o;

  GdnVerify(problem.Core(0, TreeSolver::kBlocks), pool);
  const double blocks = RelativeRmsError(problem.out.all(), want);
  GdnVerify(problem.Core(0, TreeSolver::kNeumann), pool);
  const double neumann = RelativeRmsError(problem.out.all(), want);

  EXPECT_LT(blocks, 2e-6);
  EXPECT_GT(neumann, 100 * blocks);
  EXPECT_LT(neumann, 4e3 * 16 * kFloatRoundoff);
}

TEST(GdnVerifyTest, AStrongDecayNearTheRootDoesNotBlurTheDecaysBelowIt) {
  std::mt19937 rng(4);
  GdnProblem problem =
      MakeChain(rng, 12, {.shape = kOneHead, .decay = Decay::kMild});
  // Gamma is -1e6 from the first node on: in float32 its last bit is 1/16.
  problem.log_decay[0] = -1e6f;

  ExpectMatchesRecurrence(problem);
}

TEST(GdnVerifyTest, LeavesStatesAndWindowsAlone) {
  ThreadPool pool(2);
  std::mt19937 rng(5);
  GdnProblem problem = MakeProblem(rng, {.tree = {.num_nodes = 33},
                                         .problem = {.shape = {.key_heads = 2,
                                                               .value_heads = 4,
                                                               .key_dim = 16,
                                                               .value_dim = 24,
                                                               .conv_taps = 4}},
                                         .committed = true});
  const GdnProblem before = problem;

  for (const TreeSolver solver : kSolvers) {
    GdnVerify(problem.Core(0, solver), pool);

    EXPECT_TRUE(SameBits(problem.state.all(), before.state.all()));
    EXPECT_TRUE(SameBits(problem.window.all(), before.window.all()));
    EXPECT_TRUE(problem.GuardsIntact());
  }
}

}  // namespace
}  // namespace bole::reference
