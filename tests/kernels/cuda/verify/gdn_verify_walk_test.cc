// Verification node by node with a state kept for each, and the commit of what
// was kept.
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/gdn/device_gdn.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr int kLayers = 2;

class GdnVerifyWalkTest : public CudaTest {
 protected:
  GdnProblem MakeProblem(int key_dim, int value_dim, int max_nodes) {
    HostBatch batch = PackTrees(RandomForest(rng_, 4, max_nodes),
                                {.spare_rows = 2, .spare_requests = 1});
    CommitSomething(rng_, 6, batch);
    batch.committed[2] = 0;
    const int key_heads = UniformInt(rng_, 1, 2);
    return GdnProblem(rng_,
                      {.shape = {.key_heads = key_heads,
                                 .value_heads = key_heads * 3,
                                 .key_dim = key_dim,
                                 .value_dim = value_dim,
                                 .conv_taps = 4},
                       .num_layers = kLayers,
                       .decay = static_cast<Decay>(UniformInt(rng_, 0, 2)),
                       .key_correlation = 0.5f},
                      std::move(batch));
  }

  // Both on the GPU; with `path`, what is committed too.
  void Run(GdnProblem& p, HostPath* path) {
    DeviceCopies copies(*cuda_);
    const DeviceGdn device(p, copies);
    for (int layer = 0; layer < kLayers; ++layer) {
      const absl::Status status =
          cuda_->GdnVerify(device.Core(layer, TreeSolver::kSerial));
      ASSERT_TRUE(status.ok()) << status;
    }
    if (path != nullptr) {
      ASSERT_TRUE(
          cuda_
              ->GdnCommitStates({.batch = device.batch,
                                 .path = {.first = copies.Of(path->first),
                                          .row = copies.Of(path->row)},
                                 .shape = device.shape,
                                 .states = device.states,
                                 .factors = device.factors,
                                 .first_layer = 0,
                                 .num_layers = kLayers})
              .ok());
    }
    copies.Fetch();
  }
};

BOLE_FOR_EACH_ELEMENT(GdnVerifyWalkTest);

constexpr int kDims[][2] = {
    {128, 128}, {128, 40}, {40, 7}, {7, 128}, {256, 64}};

// The snapshots are those of the decode kernel's recurrence, and the outputs
// those of the replay of every node's own path.
TEST_P(GdnVerifyWalkTest, ACommitOfASnapshotHasTheBitsOfTheReplay) {
  for (const auto& [key_dim, value_dim] : kDims) {
    SCOPED_TRACE(::testing::Message()
                 << "keys of " << key_dim << ", values of " << value_dim);
    GdnProblem copied = MakeProblem(key_dim, value_dim, 40);
    GdnProblem replayed = copied;
    HostPath path = RandomPaths(rng_, copied.batch);
    copied.KeepNodeStates();

    Run(copied, &path);
    Run(replayed, &path);

    ASSERT_TRUE(SameBits(copied.state.all(), replayed.state.all()));
  }
}

TEST_P(GdnVerifyWalkTest, OutputsAreTheReferences) {
  for (const auto& [key_dim, value_dim] : kDims) {
    for (const int max_nodes : {1, 20, 128}) {
      SCOPED_TRACE(::testing::Message() << "keys of " << key_dim << ", up to "
                                        << max_nodes << " nodes");
      GdnProblem got = MakeProblem(key_dim, value_dim, max_nodes);
      got.KeepNodeStates();
      {
        DeviceCopies rounding(*cuda_);
        const DeviceGdn unused(got, rounding);
      }
      GdnProblem want = got;

      Run(got, nullptr);
      ASSERT_TRUE(
          reference_.GdnVerify(want.Core(kLayers - 1, TreeSolver::kSerial))
              .ok());

      for (int head = 0; head < want.shape.value_heads; ++head) {
        const int rows = want.batch.num_rows();
        if (rows == 0) continue;
        // Sums of float32 in another order, and one rounding of the output.
        EXPECT_LE(
            RelativeRmsError(got.Outs(0, rows, head), want.Outs(0, rows, head)),
            is_float() ? 1e-4 : 4e-3);
      }
      EXPECT_TRUE(SameBits(got.state.all(), want.state.all()))
          << "the state is only read";
    }
  }
}

}  // namespace
}  // namespace bole::testing
