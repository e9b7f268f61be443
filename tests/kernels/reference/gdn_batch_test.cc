// What a batch must not change: a request's results beside others, and the
// memory of rows, requests and slots that take no part.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "kernels/reference/gdn_conv.h"
#include "kernels/reference/gdn_core.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::AsActivations;
using ::bole::testing::ChainParents;
using ::bole::testing::CommitSomething;
using ::bole::testing::GdnProblem;
using ::bole::testing::HostBatch;
using ::bole::testing::NormalVector;
using ::bole::testing::PackTrees;
using ::bole::testing::Parents;
using ::bole::testing::RandomForest;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

// One of the core's entry points, and the batches it takes.
struct Operator {
  const char* name;
  void (*run)(const GdnCoreParams& params, ThreadPool& pool);
  TreeSolver solver;
  bool chains;
  int max_rows;  // The most rows of a request.
};

constexpr Operator kOperators[] = {
    {"blocks", GdnVerify, TreeSolver::kBlocks, false, 70},
    {"neumann", GdnVerify, TreeSolver::kNeumann, false, 70},
    {"serial", GdnVerify, TreeSolver::kSerial, false, 20},
    {"decode", GdnDecode, TreeSolver::kBlocks, false, 1},
    {"prefill", GdnPrefill, TreeSolver::kBlocks, true, 150},
};

// Six ragged requests, some without rows, two with nothing committed.
GdnProblem MakeProblem(std::mt19937& rng, bool chains, int max_rows) {
  std::vector<Parents> trees = RandomForest(rng, 6, max_rows);
  if (chains) {
    for (Parents& tree : trees) {
      tree = ChainParents(static_cast<int>(tree.size()));
    }
  }
  HostBatch batch = PackTrees(
      trees, {.chains = chains, .spare_rows = 3, .spare_requests = 2});
  CommitSomething(rng, 9, batch);
  batch.committed[1] = batch.committed[4] = 0;
  return GdnProblem(rng,
                    {.shape = {.key_heads = 2,
                               .value_heads = 2 * UniformInt(rng, 1, 3),
                               .key_dim = UniformInt(rng, 1, 40),
                               .value_dim = UniformInt(rng, 1, 40),
                               .conv_taps = 4},
                     .num_layers = 2,
                     .spare_slots = 3},
                    std::move(batch));
}

HostBatch OnlyRequest(const GdnProblem& p, int request, bool chains) {
  const std::vector<Parents> tree = {p.batch.trees[request]};
  HostBatch batch = PackTrees(tree, {.chains = chains});
  batch.slot[0] = p.batch.slot[request];
  batch.committed[0] = p.batch.committed[request];
  return batch;
}

class GdnCoreBatchTest : public ::testing::TestWithParam<Operator> {};

TEST_P(GdnCoreBatchTest, ARequestAloneHasTheSameBits) {
  const Operator& op = GetParam();
  ThreadPool pool(2);
  std::mt19937 rng(1);
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    const GdnProblem before = MakeProblem(rng, op.chains, op.max_rows);
    GdnProblem together = before;
    GdnProblem alone = before;

    op.run(together.Core(1, op.solver), pool);
    for (int b = 0; b < before.batch.num_requests(); ++b) {
      const HostBatch batch = OnlyRequest(before, b, op.chains);
      GdnCoreParams params =
          alone.CoreOfRows(1, before.batch.first_row[b], batch);
      params.solver = op.solver;
      op.run(params, pool);
    }

    EXPECT_TRUE(SameBits(alone.out.all(), together.out.all()));
    EXPECT_TRUE(SameBits(alone.state.all(), together.state.all()));
  }
}

bool AllFinite(std::span<const float> x) {
  return std::ranges::all_of(x, [](float v) { return std::isfinite(v); });
}

// With NaN in every slot, row and layer that has no part in it, all that comes
// out is finite; and nothing else is written.
TEST_P(GdnCoreBatchTest, ReadsAndWritesOnlyItsOwn) {
  const Operator& op = GetParam();
  ThreadPool pool(2);
  std::mt19937 rng(2);
  GdnProblem problem = MakeProblem(rng, op.chains, op.max_rows);
  GdnProblem before = problem;

  op.run(problem.Core(1, op.solver), pool);

  const size_t used = problem.ValueRow(0, problem.batch.num_rows(), 0) *
                      problem.shape.value_dim;
  for (size_t i = 0; i < problem.out.size(); ++i) {
    EXPECT_EQ(std::isfinite(problem.out[i]), i < used);
  }
  for (int b = 0; b < problem.batch.num_requests(); ++b) {
    if (problem.batch.trees[b].empty()) continue;
    for (int head = 0; head < problem.shape.value_heads; ++head) {
      const auto state = problem.HeadState(b, 1, head);
      EXPECT_TRUE(op.run == GdnVerify || AllFinite(state));
      std::ranges::copy(before.HeadState(b, 1, head), state.begin());
    }
  }
  EXPECT_TRUE(SameBits(problem.state.all(), before.state.all()));
  EXPECT_TRUE(SameBits(problem.window.all(), before.window.all()));
  EXPECT_TRUE(SameBits(problem.k.all(), before.k.all()));
  EXPECT_TRUE(SameBits(problem.v.all(), before.v.all()));
  EXPECT_TRUE(problem.GuardsIntact());
}

TEST_P(GdnCoreBatchTest, ABatchWithoutRowsIsNothing) {
  const Operator& op = GetParam();
  ThreadPool pool(2);
  std::mt19937 rng(3);
  GdnProblem problem = MakeProblem(rng, op.chains, op.max_rows);
  const GdnProblem before = problem;
  const std::vector<Parents> empty(3);
  const HostBatch batch =
      PackTrees(empty, {.chains = op.chains, .spare_rows = 1});
  GdnCoreParams params = problem.CoreOfRows(0, 0, batch);
  params.solver = op.solver;

  op.run(params, pool);

  EXPECT_TRUE(SameBits(problem.out.all(), before.out.all()));
  EXPECT_TRUE(SameBits(problem.state.all(), before.state.all()));
}

INSTANTIATE_TEST_SUITE_P(Operators, GdnCoreBatchTest,
                         ::testing::ValuesIn(kOperators), [](const auto& info) {
                           return std::string(info.param.name);
                         });

// A tree of one node, decoded and verified node by node, is one step.
TEST(GdnDecodeTest, OutputsHaveTheBitsOfTheSerialSolver) {
  ThreadPool pool(2);
  std::mt19937 rng(4);
  GdnProblem decoded = MakeProblem(rng, /*chains=*/false, /*max_rows=*/1);
  GdnProblem verified = decoded;

  GdnDecode(decoded.Core(0), pool);
  GdnVerify(verified.Core(0, TreeSolver::kSerial), pool);

  EXPECT_TRUE(SameBits(decoded.out.all(), verified.out.all()));
}

// Row `first_row` of the problem is row 0 of the batch.
GdnConvParams ConvOfRows(GdnProblem& p, const HostBatch& batch, int first_row,
                         const std::vector<float>& projected,
                         const std::vector<float>& weight) {
  const GdnCoreParams core = p.CoreOfRows(1, first_row, batch);
  GdnConvParams params = {
      .batch = core.batch,
      .shape = core.shape,
      .states = core.states,
      .layer = core.layer,
      .projected =
          AsActivations(projected.data() + static_cast<size_t>(first_row) *
                                               p.shape.projected_width()),
      .conv_weight = weight.data(),
      .negative_exp_a = weight.data(),
      .dt_bias = weight.data(),
      .q = const_cast<Activation*>(core.q),
      .q_scale = const_cast<float*>(core.q_scale),
      .factors = core.factors};
  params.factors.raw = AsActivations(
      p.raw.data() + static_cast<size_t>(first_row) * p.shape.conv_width());
  return params;
}

TEST(GdnConvTest, ARequestAloneHasTheSameBits) {
  ThreadPool pool(2);
  std::mt19937 rng(5);
  GdnProblem together = MakeProblem(rng, /*chains=*/false, /*max_rows=*/30);
  GdnProblem alone = together;
  const GdnShape& s = together.shape;
  const std::vector<float> weight =
      NormalVector(rng, static_cast<size_t>(s.conv_width()) * s.conv_taps);
  const std::vector<float> projected =
      NormalVector(rng, static_cast<size_t>(together.batch.num_rows()) *
                            s.projected_width());

  GdnConv(ConvOfRows(together, together.batch, 0, projected, weight), pool);
  for (int b = 0; b < alone.batch.num_requests(); ++b) {
    const HostBatch batch = OnlyRequest(alone, b, /*chains=*/false);
    GdnConv(
        ConvOfRows(alone, batch, alone.batch.first_row[b], projected, weight),
        pool);
  }

  EXPECT_TRUE(SameBits(alone.q.all(), together.q.all()));
  EXPECT_TRUE(SameBits(alone.k.all(), together.k.all()));
  EXPECT_TRUE(SameBits(alone.v.all(), together.v.all()));
  EXPECT_TRUE(SameBits(alone.raw.all(), together.raw.all()));
  EXPECT_TRUE(SameBits(alone.q_scale.all(), together.q_scale.all()));
  EXPECT_TRUE(SameBits(alone.k_scale.all(), together.k_scale.all()));
  EXPECT_TRUE(SameBits(alone.beta.all(), together.beta.all()));
  EXPECT_TRUE(SameBits(alone.log_decay.all(), together.log_decay.all()));
}

}  // namespace
}  // namespace bole::reference
