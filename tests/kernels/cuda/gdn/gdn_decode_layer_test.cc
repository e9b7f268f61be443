// A decoding token through a whole linear layer in one call.
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/gdn/device_front.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

// 1, 2, 3, 4 and 5 value heads for each key head, and heads of other widths.
constexpr std::array kShapes = {
    GdnShape{4, 4, 128, 128, 4},  GdnShape{2, 4, 128, 128, 4},
    GdnShape{4, 12, 128, 128, 4}, GdnShape{3, 12, 128, 128, 4},
    GdnShape{4, 20, 128, 128, 4}, GdnShape{2, 6, 128, 64, 4},
};

class GdnDecodeLayerTest : public CudaTest {
 protected:
  // One row for most of the requests; the first has nothing committed.
  FrontProblem MakeProblem(const GdnShape& shape, int num_requests) {
    std::vector<Parents> trees(num_requests);
    for (int b = 0; b < num_requests; ++b) {
      if (b == 0 || UniformInt(rng_, 0, 3) > 0) trees[b] = {-1};
    }
    HostBatch batch = PackTrees(trees, {.spare_rows = 2, .spare_requests = 1});
    CommitSomething(rng_, num_requests + 2, batch);
    batch.committed[0] = 0;
    return FrontProblem(rng_, std::move(batch), shape);
  }

  // By the operator, or by the four that define it.
  LayerResult Decode(const FrontProblem& problem,
                     std::vector<float>& norm_weight, bool at_once) {
    LayerResult result(problem);
    FrontProblem& p = result.problem;
    DeviceCopies copies(*cuda_);
    const DeviceFront device(p, copies);
    std::vector<int32_t> rows(p.gdn.batch.max_rows());
    std::iota(rows.begin(), rows.end(), 0);
    const GdnDecodeLayerParams params = {
        .conv = device.Conv(1),
        .core = device.gdn.Core(1, TreeSolver::kBlocks),
        .windows = {.batch = device.gdn.batch,
                    .path = {.first = device.gdn.batch.first_row,
                             .row = copies.Of(rows)},
                    .shape = device.gdn.shape,
                    .states = device.gdn.states,
                    .factors = device.gdn.factors,
                    .first_layer = 1,
                    .num_layers = 1},
        .norm = device.Norm(copies.Of(norm_weight),
                            copies.Activations(result.out))};
    const absl::Status status =
        at_once ? cuda_->GdnDecodeLayer(params)
                : cuda_->OperatorSet::GdnDecodeLayer(params);
    copies.Fetch();
    EXPECT_TRUE(status.ok()) << status;
    return result;
  }
};

BOLE_FOR_EACH_ELEMENT(GdnDecodeLayerTest);

TEST_P(GdnDecodeLayerTest, HasTheBitsOfTheFourOperators) {
  int n = 0;
  for (const GdnShape& shape : kShapes) {
    for (const int num_requests : {1, 3, 17}) {
      if (n++ % EveryNth(2) != 0) continue;
      SCOPED_TRACE(::testing::Message()
                   << shape.value_heads << " heads of " << shape.key_heads
                   << ", " << num_requests << " requests");
      const FrontProblem problem = MakeProblem(shape, num_requests);
      std::vector<float> norm_weight = NormalVector(rng_, shape.value_dim);

      const LayerResult got = Decode(problem, norm_weight, /*at_once=*/true);
      const LayerResult want = Decode(problem, norm_weight, /*at_once=*/false);

      EXPECT_TRUE(SameBits(got.out.all(), want.out.all())) << "outputs";
      EXPECT_TRUE(
          SameBits(got.problem.gdn.state.all(), want.problem.gdn.state.all()))
          << "states";
      EXPECT_TRUE(
          SameBits(got.problem.gdn.window.all(), want.problem.gdn.window.all()))
          << "windows";
      EXPECT_FALSE(
          SameBits(want.problem.gdn.window.all(), problem.gdn.window.all()));
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace bole::testing
