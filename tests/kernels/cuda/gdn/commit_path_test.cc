// Commits in one launch on the GPU, beside the operators that they consist of.
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "kernels/gdn.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/cuda/attention/device_pages.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/gdn/device_gdn.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr int kLinearLayers = 3;
constexpr int kAttentionLayers = 2;

// Linear layers and attention layers of the same batch.
struct CommitProblem {
  GdnProblem linear;
  AttentionProblem attention;
};

class CommitPathTest : public CudaTest {
 protected:
  CommitProblem MakeProblem(HostBatch batch) {
    CommitSomething(rng_, batch.num_requests() + 2, batch);
    for (int b = 0; b < batch.num_requests(); ++b) {
      batch.committed[b] = UniformInt(rng_, 0, 3) * UniformInt(rng_, 0, 50);
    }
    const int kv_heads = UniformInt(rng_, 1, 4);
    const int head_dims[] = {8, 40, 128, 256, 7};
    AttentionProblem attention(
        rng_,
        {.shape = {.query_heads = 2 * kv_heads,
                   .kv_heads = kv_heads,
                   .head_dim = head_dims[UniformInt(rng_, 0, 4)],
                   .rotary_dim = 4},
         .page_size = UniformInt(rng_, 1, 64),
         .num_layers = kAttentionLayers},
        std::move(batch));
    FillNormal(rng_, 1, attention.k.span(0, attention.k.size()));
    FillNormal(rng_, 1, attention.v.span(0, attention.v.size()));
    const int key_heads = UniformInt(rng_, 1, 3);
    const int key_dims[] = {128, 128, 128, 64};
    GdnProblem linear(
        rng_,
        {.shape = {.key_heads = key_heads,
                   .value_heads = key_heads * UniformInt(rng_, 1, 4),
                   .key_dim = key_dims[UniformInt(rng_, 0, 3)],
                   .value_dim = 16 * UniformInt(rng_, 1, 8),
                   .conv_taps = UniformInt(rng_, 2, 5)},
         .num_layers = kLinearLayers,
         .decay = static_cast<Decay>(UniformInt(rng_, 0, 2)),
         .key_correlation = 0.5f},
        attention.batch);
    return {.linear = std::move(linear), .attention = std::move(attention)};
  }

  // With all layers but the first of the linear ones.
  void Commit(CommitProblem& p, HostPath& path, bool in_one) {
    DeviceCopies copies(*cuda_);
    const DeviceGdn device(p.linear, copies);
    const RowPath rows = {.first = copies.Of(path.first),
                          .row = copies.Of(path.row)};
    RowBatch batch = device.batch;
    batch.page_table = copies.Of(p.attention.batch).page_table;
    const GdnCommitParams linear = {.batch = batch,
                                    .path = rows,
                                    .shape = device.shape,
                                    .states = device.states,
                                    .factors = device.factors,
                                    .first_layer = 1,
                                    .num_layers = kLinearLayers - 1};
    const CompactKvParams attention = {
        .batch = batch,
        .path = rows,
        .shape = p.attention.shape,
        .pages = DevicePages(copies, p.attention),
        .num_layers = kAttentionLayers};
    if (in_one) {
      ASSERT_TRUE(cuda_->CommitPath(linear, attention).ok());
    } else {
      ASSERT_TRUE(cuda_->GdnCommitStates(linear).ok());
      ASSERT_TRUE(cuda_->GdnCommitWindows(linear).ok());
      ASSERT_TRUE(cuda_->CompactKv(attention).ok());
    }
    copies.Fetch();
  }

  void ExpectIsTheThreeOperators(CommitProblem& p, HostPath& path) {
    SCOPED_TRACE(::testing::Message()
                 << p.attention << "; keys of " << p.linear.shape.key_dim
                 << ", values of " << p.linear.shape.value_dim);
    CommitProblem want = p;
    Commit(p, path, /*in_one=*/true);
    Commit(want, path, /*in_one=*/false);
    EXPECT_TRUE(SameBits(p.linear.state.all(), want.linear.state.all()));
    EXPECT_TRUE(SameBits(p.linear.window.all(), want.linear.window.all()));
    EXPECT_TRUE(SameBits(p.attention.k.all(), want.attention.k.all()));
    EXPECT_TRUE(SameBits(p.attention.v.all(), want.attention.v.all()));
  }
};

BOLE_FOR_EACH_ELEMENT(CommitPathTest);

TEST_P(CommitPathTest, IsTheThreeOperators) {
  for (int round = 0; round < 20; round += EveryNth(7)) {
    SCOPED_TRACE(round);
    CommitProblem p = MakeProblem(PackTrees(
        RandomForest(rng_, UniformInt(rng_, 1, 6), 40),
        {.spare_rows = 2, .spare_requests = UniformInt(rng_, 0, 40)}));
    HostPath path = RandomPaths(rng_, p.linear.batch);
    ExpectIsTheThreeOperators(p, path);
    if (HasFailure()) return;
  }
}

TEST_P(CommitPathTest, ABatchThatAcceptsNothingKeepsAll) {
  CommitProblem p =
      MakeProblem(PackTrees(RandomForest(rng_, 5, 10), {.spare_requests = 1}));
  const CommitProblem before = p;
  HostPath path = MakePath(p.linear.batch, {});
  ExpectIsTheThreeOperators(p, path);
  EXPECT_TRUE(SameBits(p.linear.state.all(), before.linear.state.all()));
}

}  // namespace
}  // namespace bole::testing
