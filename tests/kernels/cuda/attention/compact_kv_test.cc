// The moves of accepted keys and values on the GPU.
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/cuda/attention/device_pages.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr int kLayers = 3;

class CompactKvTest : public CudaTest {
 protected:
  // All pages are full, those that no request owns as well.
  AttentionProblem MakeProblem(const AttentionShape& shape, HostBatch batch) {
    AttentionProblem p(rng_,
                       {.shape = shape,
                        .page_size = UniformInt(rng_, 1, 64),
                        .num_layers = kLayers},
                       std::move(batch));
    FillNormal(rng_, 1, p.k.span(0, p.k.size()));
    FillNormal(rng_, 1, p.v.span(0, p.v.size()));
    return p;
  }

  // On both, and compares every bit.
  void ExpectIsTheReference(AttentionProblem& p, HostPath& path,
                            int num_layers) {
    SCOPED_TRACE(::testing::Message() << p << ", " << num_layers << " layers");
    DeviceCopies copies(*cuda_);
    const CompactKvParams params = {
        .batch = copies.Of(p.batch),
        .path = {.first = copies.Of(path.first), .row = copies.Of(path.row)},
        .shape = p.shape,
        .pages = DevicePages(copies, p),
        .num_layers = num_layers};
    AttentionProblem want = p;

    const absl::Status status = cuda_->CompactKv(params);
    copies.Fetch();

    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(reference_
                    .CompactKv({.batch = want.batch.View(),
                                .path = path.View(),
                                .shape = want.shape,
                                .pages = want.Pages(),
                                .num_layers = num_layers})
                    .ok());
    EXPECT_TRUE(SameBits(p.k.all(), want.k.all()));
    EXPECT_TRUE(SameBits(p.v.all(), want.v.all()));
  }
};

BOLE_FOR_EACH_ELEMENT(CompactKvTest);

TEST_P(CompactKvTest, MovesRandomPathsAndNothingElse) {
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    AttentionProblem p = MakeProblem(RandomShape(rng_), RandomBatch(rng_, 30));
    HostPath path = RandomPaths(rng_, p.batch);

    ExpectIsTheReference(p, path, UniformInt(rng_, 0, kLayers));
  }
}

TEST_P(CompactKvTest, MovesHeadsOfNotedShapes) {
  for (const AttentionShape& shape : NotedShapes()) {
    AttentionProblem p = MakeProblem(shape, RandomBatch(rng_, 30));
    HostPath path = RandomPaths(rng_, p.batch);

    ExpectIsTheReference(p, path, kLayers);
  }
}

// Two roots, of which the second has a long chain: every entry moves by one, to
// where the entry before it comes from.
TEST_P(CompactKvTest, MovesLongOverlappingPathsInOrder) {
  const int length = 700;
  Parents parents = ChainParents(length + 1);
  parents[1] = -1;
  const std::vector<Parents> trees = {parents, ChainParents(3)};
  std::vector<int> chain(length);
  std::iota(chain.begin(), chain.end(), 1);
  HostBatch batch = PackTrees(trees);
  batch.committed[0] = 5;
  AttentionProblem p = MakeProblem(
      {.query_heads = 2, .kv_heads = 2, .head_dim = 24, .rotary_dim = 2},
      std::move(batch));
  HostPath path =
      MakePath(p.batch, std::vector<std::vector<int>>{chain, {0, 1}});

  ExpectIsTheReference(p, path, kLayers);
}

TEST_P(CompactKvTest, APrefillChunkIsInPlaceAlready) {
  const std::vector<Parents> chains = {ChainParents(300), ChainParents(1)};
  HostBatch batch = PackTrees(chains, {.chains = true});
  batch.committed[0] = 5;
  AttentionProblem p = MakeProblem(RandomShape(rng_), std::move(batch));
  HostPath all =
      MakePath(p.batch, std::vector<std::vector<int>>{PathTo(chains[0], 299),
                                                      PathTo(chains[1], 0)});

  ExpectIsTheReference(p, all, kLayers);
}

}  // namespace
}  // namespace bole::testing
