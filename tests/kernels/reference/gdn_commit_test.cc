#include "kernels/reference/gdn_commit.h"

#include <algorithm>
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

using ::bole::testing::CommitSomething;
using ::bole::testing::Decay;
using ::bole::testing::ExtractHead;
using ::bole::testing::GdnProblem;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::HeadProblem;
using ::bole::testing::HeadSolution;
using ::bole::testing::HostBatch;
using ::bole::testing::HostPath;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::PackTrees;
using ::bole::testing::Parents;
using ::bole::testing::Poison;
using ::bole::testing::RandomForest;
using ::bole::testing::RandomPaths;
using ::bole::testing::RunRecurrence;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

// A forest over several layers; every third request has nothing committed, so
// that its slot holds NaN.
GdnProblem MakeProblem(std::mt19937& rng) {
  const std::vector<Parents> trees = RandomForest(rng, 5, 20);
  HostBatch batch = PackTrees(trees, {.spare_rows = 2, .spare_requests = 2});
  CommitSomething(rng, 7, batch);
  for (int b = 0; b < 5; b += 3) batch.committed[b] = 0;
  return GdnProblem(rng,
                    {.shape = {.key_heads = 2,
                               .value_heads = 2 * UniformInt(rng, 1, 3),
                               .key_dim = UniformInt(rng, 1, 40),
                               .value_dim = UniformInt(rng, 1, 40),
                               .conv_taps = 4},
                     .num_layers = 3,
                     .decay = static_cast<Decay>(UniformInt(rng, 0, 2)),
                     .key_correlation = 0.5f},
                    std::move(batch));
}

GdnCommitParams Commit(GdnProblem& p, const HostPath& path) {
  return {.batch = p.batch.View(),
          .path = path.View(),
          .shape = p.shape,
          .states = p.States(),
          .factors = p.Factors(),
          .first_layer = 0,
          .num_layers = p.num_layers};
}

// Decodes the recorded operands of one row as the only row of a batch.
void DecodeRow(GdnProblem& p, int layer, int request, int row, int committed) {
  ThreadPool pool(1);
  const std::vector<Parents> one_row = {{-1}};
  HostBatch batch = PackTrees(one_row);
  batch.slot[0] = p.batch.slot[request];
  batch.committed[0] = committed;
  GdnDecode(p.CoreOfRows(layer, row, batch), pool);
}

void DecodePath(GdnProblem& p, int layer, int request, const HostPath& path) {
  int committed = p.batch.committed[request];
  for (const int row : path.rows(request)) {
    DecodeRow(p, layer, request, row, committed++);
  }
}

TEST(GdnCommitStatesTest, HasTheBitsOfDecodingThePathRowByRow) {
  ThreadPool pool(2);
  std::mt19937 rng(1);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    GdnProblem committed = MakeProblem(rng);
    GdnProblem decoded = committed;
    const HostPath path = RandomPaths(rng, committed.batch);

    GdnCommitStates(Commit(committed, path), pool);

    for (int b = 0; b < decoded.batch.num_requests(); ++b) {
      for (int layer = 0; layer < decoded.num_layers; ++layer) {
        DecodePath(decoded, layer, b, path);
      }
    }
    EXPECT_TRUE(SameBits(committed.state.all(), decoded.state.all()));
    EXPECT_TRUE(committed.GuardsIntact());
  }
}

// The serial verifier's snapshot of the last row, and the replay of the path.
TEST(GdnCommitStatesTest, ASnapshotHasTheBitsOfTheReplay) {
  ThreadPool pool(2);
  std::mt19937 rng(5);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    GdnProblem copied = MakeProblem(rng);
    GdnProblem replayed = copied;
    const HostPath path = RandomPaths(rng, copied.batch);
    copied.KeepNodeStates();
    for (int layer = 0; layer < copied.num_layers; ++layer) {
      GdnVerify(copied.Core(layer, TreeSolver::kSerial), pool);
    }

    // What is copied needs nothing else.
    std::fill_n(copied.k.data(), copied.k.size(), Poison<float>());
    GdnCommitStates(Commit(copied, path), pool);
    GdnCommitStates(Commit(replayed, path), pool);

    EXPECT_TRUE(SameBits(copied.state.all(), replayed.state.all()));
    EXPECT_TRUE(copied.GuardsIntact());
  }
}

// Eq. 10 in double: exp(Gamma_a) S + sum_j exp(Gamma_a - Gamma_j) u_j k_j^T
// over the path that ends in node a.
std::vector<double> ClosedFormState(const HeadProblem& h,
                                    const HeadSolution& solution, int node) {
  std::vector<double> state(h.state.size());
  double gamma = 0;  // Gamma_a - Gamma_j.
  for (int j = node; j >= 0; gamma += h.log_decay[j], j = h.parents[j]) {
    for (int c = 0; c < h.value_dim; ++c) {
      for (int d = 0; d < h.key_dim; ++d) {
        state[c * h.key_dim + d] += std::exp(gamma) *
                                    solution.u[j * h.value_dim + c] *
                                    h.k[j * h.key_dim + d];
      }
    }
  }
  for (size_t i = 0; i < state.size(); ++i) {
    state[i] += std::exp(gamma) * h.state[i];
  }
  return state;
}

// A bound on the norms of the states' rows and on |v| along the path.
double PathNorm(const HeadProblem& h, const HeadSolution& solution, int node) {
  double norm = 0;
  for (const double s : h.state) norm = std::max(norm, std::abs(s));
  for (int j = node; j >= 0; j = h.parents[j]) {
    for (size_t i = 0; i < h.state.size(); ++i) {
      norm = std::max(norm, std::abs(solution.states[j * h.state.size() + i]));
    }
  }
  norm *= std::sqrt(h.key_dim);
  for (const double v : h.v) norm = std::max(norm, std::abs(v));
  return norm;
}

TEST(GdnCommitStatesTest, IsTheClosedFormOfTheAcceptedPath) {
  ThreadPool pool(2);
  std::mt19937 rng(2);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    GdnProblem problem = MakeProblem(rng);
    const GdnProblem before = problem;
    const HostPath path = RandomPaths(rng, problem.batch);

    GdnCommitStates(Commit(problem, path), pool);

    for (int b = 0; b < problem.batch.num_requests(); ++b) {
      if (path.rows(b).empty()) continue;
      const int node = problem.batch.node[path.rows(b).back()];
      const int head = UniformInt(rng, 0, problem.shape.value_heads - 1);
      const HeadProblem h = ExtractHead(before, 1, b, head);
      const HeadSolution solution = RunRecurrence(h);
      // A step rounds an element about four times (decay, read, u, sum) at no
      // more than the row's norm, and does not amplify what came before.
      const double tolerance = 4 * kFloatRoundoff *
                               static_cast<double>(path.rows(b).size()) *
                               PathNorm(h, solution, node);
      EXPECT_LE(testing::MaxError(problem.HeadState(b, 1, head),
                                  ClosedFormState(h, solution, node)),
                tolerance);
    }
  }
}

TEST(GdnCommitStatesTest, AllLayersInOneCallAreTheLayersOneByOne) {
  ThreadPool pool(2);
  std::mt19937 rng(3);
  GdnProblem at_once = MakeProblem(rng);
  GdnProblem one_by_one = at_once;
  const HostPath path = RandomPaths(rng, at_once.batch);

  GdnCommitStates(Commit(at_once, path), pool);
  GdnCommitWindows(Commit(at_once, path), pool);
  for (int layer = 0; layer < one_by_one.num_layers; ++layer) {
    GdnCommitParams params = Commit(one_by_one, path);
    params.first_layer = layer;
    params.num_layers = 1;
    GdnCommitStates(params, pool);
    GdnCommitWindows(params, pool);
  }

  EXPECT_TRUE(SameBits(at_once.state.all(), one_by_one.state.all()));
  EXPECT_TRUE(SameBits(at_once.window.all(), one_by_one.window.all()));
}

TEST(GdnCommitTest, ARequestThatAcceptsNothingKeepsItsSlot) {
  ThreadPool pool(2);
  std::mt19937 rng(4);
  GdnProblem problem = MakeProblem(rng);
  const GdnProblem before = problem;
  const HostPath nothing = testing::MakePath(problem.batch, {});

  GdnCommitStates(Commit(problem, nothing), pool);
  GdnCommitWindows(Commit(problem, nothing), pool);

  EXPECT_TRUE(SameBits(problem.state.all(), before.state.all()));
  EXPECT_TRUE(SameBits(problem.window.all(), before.window.all()));
}

// The last taps rows of zeros or the old window, then the path's raw rows.
std::vector<float> NextWindow(GdnProblem& p, int layer, int request,
                              const HostPath& path) {
  const size_t size =
      static_cast<size_t>(p.shape.conv_taps) * p.shape.conv_width();
  std::vector<float> rows(size);
  if (p.batch.committed[request] > 0) {
    std::ranges::copy(p.Window(request, layer), rows.begin());
  }
  for (const int row : path.rows(request)) {
    const auto raw = p.raw.span(p.RawRow(layer, row) * p.shape.conv_width(),
                                p.shape.conv_width());
    rows.insert(rows.end(), raw.begin(), raw.end());
  }
  return {rows.end() - static_cast<ptrdiff_t>(size), rows.end()};
}

TEST(GdnCommitWindowsTest, HoldTheLastRawRowsOfWindowAndPath) {
  ThreadPool pool(2);
  std::mt19937 rng(5);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    GdnProblem problem = MakeProblem(rng);
    GdnProblem before = problem;
    const HostPath path = RandomPaths(rng, problem.batch);

    GdnCommitWindows(Commit(problem, path), pool);

    GdnProblem want = before;
    for (int b = 0; b < problem.batch.num_requests(); ++b) {
      if (path.rows(b).empty()) continue;
      for (int layer = 0; layer < problem.num_layers; ++layer) {
        std::ranges::copy(NextWindow(before, layer, b, path),
                          want.Window(b, layer).begin());
      }
    }
    EXPECT_TRUE(SameBits(problem.window.all(), want.window.all()));
    EXPECT_TRUE(SameBits(problem.state.all(), before.state.all()));
    EXPECT_TRUE(problem.GuardsIntact());
  }
}

void CopyFirstLayerToSecond(GuardedBuffer<float>& factor, int num_layers) {
  const size_t size = factor.size() / num_layers;
  std::copy_n(factor.data(), size, factor.data() + size);
}

TEST(GdnCommitTest, LayersMayShareTheirFactors) {
  ThreadPool pool(1);
  std::mt19937 rng(6);
  GdnProblem shared = MakeProblem(rng);
  GdnProblem apart = shared;
  const HostPath path = RandomPaths(rng, apart.batch);
  for (auto* factor : {&apart.raw, &apart.k, &apart.v, &apart.k_scale,
                       &apart.beta, &apart.log_decay}) {
    CopyFirstLayerToSecond(*factor, apart.num_layers);
  }

  for (GdnProblem* problem : {&shared, &apart}) {
    GdnCommitParams params = Commit(*problem, path);
    params.first_layer = 1;
    params.num_layers = 1;
    if (problem == &shared) params.factors.layer_rows = 0;
    GdnCommitStates(params, pool);
    GdnCommitWindows(params, pool);
  }

  EXPECT_TRUE(SameBits(shared.state.all(), apart.state.all()));
  EXPECT_TRUE(SameBits(shared.window.all(), apart.window.all()));
}

}  // namespace
}  // namespace bole::reference
