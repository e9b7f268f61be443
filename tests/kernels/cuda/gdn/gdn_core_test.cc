// The core of linear layers on the GPU: verification, decode, prefill, commit.
#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/gdn.h"
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

class GdnCoreTest : public CudaTest {
 protected:
  // Both compute the same sums in float32 in another order, which the
  // reference's own tests bound by some roundoffs of the terms' magnitudes.
  // Terms of correlated keys cancel, so that some hundred roundoffs are left. A
  // bfloat16 output is rounded once more, by 2^-8 at most.
  double OutTolerance() const { return is_float() ? 1e-4 : 4e-3; }
  static constexpr double kStateTolerance = 5e-5;

  // All rows of a head together: a row that decay has left little of is off by
  // as much as its neighbours, and by more of itself.
  void ExpectSameOut(const GdnProblem& got, const GdnProblem& want) {
    const int rows = want.batch.num_rows();
    for (int head = 0; head < want.shape.value_heads; ++head) {
      ExpectSmallError(got.Outs(0, rows, head), want.Outs(0, rows, head),
                       OutTolerance(), "head " + std::to_string(head));
    }
  }
  void ExpectSameStates(const GdnProblem& got, const GdnProblem& want,
                        int layer) {
    for (int b = 0; b < want.batch.num_requests(); ++b) {
      if (want.batch.trees[b].empty()) continue;
      for (int head = 0; head < want.shape.value_heads; ++head) {
        ExpectSmallError(got.HeadState(b, layer, head),
                         want.HeadState(b, layer, head), kStateTolerance,
                         "state of request " + std::to_string(b) + ", head " +
                             std::to_string(head));
      }
    }
  }
};

BOLE_FOR_EACH_ELEMENT(GdnCoreTest);

GdnShape RandomShape(std::mt19937& rng) {
  constexpr std::array kDims = {1, 7, 16, 40, 64, 128, 128, 256};
  const int key_heads = UniformInt(rng, 1, 3);
  return {.key_heads = key_heads,
          .value_heads = key_heads * UniformInt(rng, 1, 4),
          .key_dim = kDims[UniformInt(rng, 0, 7)],
          .value_dim = kDims[UniformInt(rng, 0, 6)],
          .conv_taps = 4};
}

TEST_P(GdnCoreTest, VerifiesTreesOfEverySize) {
  for (int num_nodes = 1; num_nodes <= 128;
       num_nodes += EveryNth(9) * (num_nodes < 20 ? 1 : 7)) {
    std::vector<Parents> trees;
    trees.reserve(3);
    for (int b = 0; b < 3; ++b) {
      trees.push_back(RandomParents(rng_, {.num_nodes = b == 1 ? 1 : num_nodes,
                                           .max_depth = UniformInt(rng_, 1, 16),
                                           .max_roots = 2}));
    }
    HostBatch batch = PackTrees(trees, {.spare_rows = 3, .spare_requests = 1});
    CommitSomething(rng_, 5, batch);
    if (num_nodes % 3 == 0) batch.committed[0] = 0;
    GdnProblem p(rng_,
                 {.shape = RandomShape(rng_),
                  .num_layers = 2,
                  .decay = static_cast<Decay>(UniformInt(rng_, 0, 2)),
                  .key_correlation = num_nodes % 2 == 0 ? 0.9f : 0.0f},
                 std::move(batch));
    for (const TreeSolver solver : {TreeSolver::kBlocks, TreeSolver::kSerial}) {
      SCOPED_TRACE(::testing::Message()
                   << num_nodes << " nodes, keys of " << p.shape.key_dim
                   << ", values of " << p.shape.value_dim << ", solver "
                   << static_cast<int>(solver));
      GdnProblem got = p;
      DeviceCopies copies(*cuda_);
      const DeviceGdn device(got, copies);
      GdnProblem want = got;

      const absl::Status status = cuda_->GdnVerify(device.Core(1, solver));
      copies.Fetch();
      ASSERT_TRUE(reference_.GdnVerify(want.Core(1, solver)).ok());

      ASSERT_TRUE(status.ok()) << status;
      ExpectSameOut(got, want);
      EXPECT_TRUE(SameBits(got.state.all(), want.state.all()))
          << "the state is only read";
      if (HasFailure()) return;
    }
  }
}

// Chains that start anywhere on the grid.
GdnProblem ChainProblem(std::mt19937& rng, std::span<const int> lengths) {
  std::vector<Parents> trees;
  trees.reserve(lengths.size());
  for (const int length : lengths) trees.push_back(ChainParents(length));
  HostBatch batch =
      PackTrees(trees, {.chains = true, .spare_rows = 2, .spare_requests = 1});
  CommitSomething(rng, static_cast<int>(lengths.size()) + 2, batch);
  batch.committed[0] = 0;
  return GdnProblem(rng,
                    {.shape = RandomShape(rng),
                     .num_layers = 2,
                     .decay = static_cast<Decay>(UniformInt(rng, 0, 2)),
                     .key_correlation = 0.5f},
                    std::move(batch));
}

TEST_P(GdnCoreTest, DecodesAndPrefillsChains) {
  for (int round = 0; round < 30; round += EveryNth(5)) {
    SCOPED_TRACE(round);
    const bool decode = round % 2 == 0;
    const int longest = decode ? 1 : 150;
    const std::array lengths = {UniformInt(rng_, 1, longest),
                                UniformInt(rng_, 0, longest),
                                UniformInt(rng_, 1, longest)};
    GdnProblem got = ChainProblem(rng_, lengths);
    DeviceCopies copies(*cuda_);
    const DeviceGdn device(got, copies);
    GdnProblem want = got;
    const GdnCoreParams on_device = device.Core(1, TreeSolver::kBlocks);

    const absl::Status status =
        decode ? cuda_->GdnDecode(on_device) : cuda_->GdnPrefill(on_device);
    copies.Fetch();
    ASSERT_TRUE((decode ? reference_.GdnDecode(want.Core(1))
                        : reference_.GdnPrefill(want.Core(1)))
                    .ok());

    ASSERT_TRUE(status.ok()) << status;
    ExpectSameOut(got, want);
    ExpectSameStates(got, want, 1);
    if (HasFailure()) return;
  }
}

class GdnCommitTest : public GdnCoreTest {
 protected:
  static constexpr int kLayers = 3;

  GdnProblem MakeProblem() {
    HostBatch batch = PackTrees(RandomForest(rng_, 4, 20),
                                {.spare_rows = 2, .spare_requests = 1});
    CommitSomething(rng_, 6, batch);
    batch.committed[2] = 0;
    return GdnProblem(rng_,
                      {.shape = RandomShape(rng_),
                       .num_layers = kLayers,
                       .key_correlation = 0.5f},
                      std::move(batch));
  }

  GdnProblem MakeChains(std::span<const int> lengths, const GdnShape& shape) {
    std::vector<Parents> trees;
    trees.reserve(lengths.size());
    for (const int length : lengths) trees.push_back(ChainParents(length));
    HostBatch batch = PackTrees(trees);
    CommitSomething(rng_, 6, batch);
    return GdnProblem(
        rng_, {.shape = shape, .num_layers = kLayers, .key_correlation = 0.5f},
        std::move(batch));
  }

  // All nodes of trees that are chains.
  static HostPath WholeChains(const GdnProblem& p) {
    std::vector<std::vector<int>> nodes(p.batch.num_requests());
    for (int b = 0; b < p.batch.num_requests(); ++b) {
      nodes[b].resize(p.batch.trees[b].size());
      std::iota(nodes[b].begin(), nodes[b].end(), 0);
    }
    return MakePath(p.batch, nodes);
  }

  void Commit(GdnProblem& p, HostPath& path) {
    DeviceCopies copies(*cuda_);
    const DeviceGdn device(p, copies);
    const GdnCommitParams commit = {
        .batch = device.batch,
        .path = {.first = copies.Of(path.first), .row = copies.Of(path.row)},
        .shape = device.shape,
        .states = device.states,
        .factors = device.factors,
        .first_layer = 0,
        .num_layers = kLayers};
    ASSERT_TRUE(cuda_->GdnCommitStates(commit).ok());
    ASSERT_TRUE(cuda_->GdnCommitWindows(commit).ok());
    copies.Fetch();
  }

  // The recorded operands of the paths, decoded token by token.
  void Decode(GdnProblem& p, const HostPath& path) {
    DeviceCopies copies(*cuda_);
    const DeviceGdn device(p, copies);
    for (int b = 0; b < p.batch.num_requests(); ++b) {
      int committed = p.batch.committed[b];
      for (const int row : path.rows(b)) {
        const std::vector<Parents> one_row = {{-1}};
        HostBatch single = PackTrees(one_row);
        single.slot[0] = p.batch.slot[b];
        single.committed[0] = committed++;
        DeviceCopies row_copies(*cuda_);
        const RowBatch batch = row_copies.Of(single);
        for (int layer = 0; layer < kLayers; ++layer) {
          GdnCoreParams step = CoreFromRow(device, p.batch.max_rows(), layer,
                                           row, ElementBytes(GetParam()));
          step.batch = batch;
          ASSERT_TRUE(cuda_->GdnDecode(step).ok());
        }
        row_copies.Fetch();
      }
    }
    copies.Fetch();
  }

  // Commits whole chains, so many times, and compares with decoding.
  void ExpectBitsOfDecoding(GdnProblem& committed, int turns) {
    GdnProblem decoded = committed;
    HostPath path = WholeChains(committed);
    for (int turn = 0; turn < turns; ++turn) {
      Commit(committed, path);
      Decode(decoded, path);
      ASSERT_TRUE(SameBits(committed.state.all(), decoded.state.all()));
    }
  }
};

BOLE_FOR_EACH_ELEMENT(GdnCommitTest);

TEST_P(GdnCommitTest, StatesHaveTheBitsOfDecodingThePath) {
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    GdnProblem committed = MakeProblem();
    GdnProblem decoded = committed;
    HostPath path = RandomPaths(rng_, committed.batch);

    Commit(committed, path);
    Decode(decoded, path);

    ASSERT_TRUE(SameBits(committed.state.all(), decoded.state.all()));
  }
}

// More nodes than a warp has lanes.
TEST_P(GdnCommitTest, LongPathsHaveTheBitsOfDecoding) {
  const int lengths[] = {70, 33, 32, 1};
  GdnProblem committed = MakeChains(lengths, {.key_heads = 2,
                                              .value_heads = 6,
                                              .key_dim = 128,
                                              .value_dim = 48,
                                              .conv_taps = 4});
  ExpectBitsOfDecoding(committed, /*turns=*/1);
}

// More rows of states than all blocks of a launch begin with, and a second
// launch behind the first.
TEST_P(GdnCommitTest, ManyStatesHaveTheBitsOfDecoding) {
  const int lengths[] = {12, 10, 3, 1};
  GdnProblem committed = MakeChains(lengths, {.key_heads = 16,
                                              .value_heads = 48,
                                              .key_dim = 128,
                                              .value_dim = 128,
                                              .conv_taps = 2});
  ExpectBitsOfDecoding(committed, /*turns=*/2);
}

TEST_P(GdnCommitTest, WindowsHaveTheBitsOfTheReference) {
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    GdnProblem got = MakeProblem();
    HostPath path = RandomPaths(rng_, got.batch);
    {
      DeviceCopies rounding(*cuda_);
      const DeviceGdn unused(got, rounding);
    }
    GdnProblem want = got;

    Commit(got, path);
    ASSERT_TRUE(reference_
                    .GdnCommitWindows({.batch = want.batch.View(),
                                       .path = path.View(),
                                       .shape = want.shape,
                                       .states = want.States(),
                                       .factors = want.Factors(),
                                       .first_layer = 0,
                                       .num_layers = kLayers})
                    .ok());

    for (int b = 0; b < want.batch.num_requests(); ++b) {
      if (path.rows(b).empty()) continue;
      for (int layer = 0; layer < kLayers; ++layer) {
        ASSERT_TRUE(SameBits(got.Window(b, layer), want.Window(b, layer)))
            << "request " << b << ", layer " << layer;
      }
    }
  }
}

}  // namespace
}  // namespace bole::testing
