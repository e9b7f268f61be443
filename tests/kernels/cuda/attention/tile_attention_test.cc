// Attention on tensor cores: the shapes that they are used for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/cuda/attention/attend_test.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

AttentionShape Heads(int group, int kv_heads) {
  return {.query_heads = group * kv_heads,
          .kv_heads = kv_heads,
          .head_dim = 256,
          .rotary_dim = 64};
}

class TileAttentionTest : public AttendTest {
 protected:
  void ExpectIsTheReference(AttentionProblem& p) {
    AttentionProblem want = Attend(p);
    ASSERT_TRUE(reference_.Attend(want.Params(kLayer)).ok());
    AttendTest::ExpectIsTheReference(p, want);
  }
};

// Float32 takes the plain kernel, which has its own tests.
INSTANTIATE_TEST_SUITE_P(Elements, TileAttentionTest,
                         ::testing::Values(ElementType::kBFloat16),
                         ElementName);

TEST_P(TileAttentionTest, IsTheReferenceOnRandomForests) {
  int n = 0;
  for (const int group : {1, 2, 3, 4, 5, 6, 8, 11, 16}) {
    if (n++ % EveryNth(4) != 0) continue;
    const int page_size = UniformInt(rng_, 0, 1) == 0 ? 64 : 128;
    AttentionProblem p = MakeProblem(Heads(group, UniformInt(rng_, 1, 4)),
                                     page_size, UniformInt(rng_, 0, 300));
    SCOPED_TRACE(::testing::Message() << p);

    ExpectIsTheReference(p);
  }
}

// At the edges of tiles: prefixes and trees that end with a page or beside it.
TEST_P(TileAttentionTest, IsTheReferenceAtTheEdgesOfTiles) {
  int n = 0;
  for (const int committed : {0, 1, 63, 64, 65, 128}) {
    for (const int nodes : {1, 63, 64, 65, 128}) {
      if (n++ % EveryNth(7) != 0) continue;
      HostBatch batch =
          PackTrees(std::vector<Parents>{RandomParentsOf(rng_, nodes), {-1}});
      batch.committed[0] = committed;
      batch.committed[1] = 128 - committed;
      for (const int first_key : {0, 1}) {
        AttentionProblem p = MakeProblem(Heads(4, 1), 64, batch, first_key);
        SCOPED_TRACE(::testing::Message()
                     << committed << " + " << nodes << ", from " << first_key);

        ExpectIsTheReference(p);
      }
    }
  }
}

// Each first tile, of chains and of trees, hides what lies before the key.
TEST_P(TileAttentionTest, NothingBeforeTheFirstKeyCounts) {
  int n = 0;
  for (const bool chains : {false, true}) {
    for (const int nodes : {1, 2, 62, 63, 64, 127, 128}) {
      if (n++ % EveryNth(6) != 0) continue;
      const std::vector<Parents> trees = {
          ChainParents(nodes), {-1}, ChainParents(nodes)};
      HostBatch batch = PackTrees(trees, {.chains = chains});
      batch.committed[2] = 700;
      for (const int group : {4, 6}) {
        AttentionProblem p =
            MakeProblem(Heads(group, 1), 64, batch, /*first_key=*/1);
        SCOPED_TRACE(::testing::Message()
                     << (chains ? "chains of " : "trees of ") << nodes << ", "
                     << group << " query heads");

        ExpectIsTheReference(p);
      }
    }
  }
}

// One request by itself is split, up to scratch and beyond one cluster; beside
// many that are empty it is not.
TEST_P(TileAttentionTest, LongPrefixesAreTheReferenceSplitOrNot) {
  int n = 0;
  for (const int nodes : {1, 16, 65, 128}) {
    for (const int spare_requests : {0, 3, 200}) {
      if (n++ % EveryNth(5) != 0) continue;
      HostBatch batch =
          PackTrees(std::vector<Parents>{RandomParentsOf(rng_, nodes)},
                    {.spare_rows = 5, .spare_requests = spare_requests});
      batch.committed[0] = UniformInt(rng_, 2000, 5000);
      AttentionProblem p = MakeProblem(Heads(4, 2), 64, std::move(batch));
      SCOPED_TRACE(::testing::Message()
                   << p.batch.committed[0] << " + " << nodes << ", "
                   << spare_requests << " spare requests");

      ExpectIsTheReference(p);
    }
  }
}

TEST_P(TileAttentionTest, RaggedPrefixesAreTheReference) {
  std::vector<Parents> trees;
  for (const int nodes : {1, 128, 7, 40}) {
    trees.push_back(RandomParentsOf(rng_, nodes));
  }
  HostBatch batch = PackTrees(trees, {.spare_rows = 100});
  for (int b = 0; b < 4; ++b) batch.committed[b] = 600 * b;
  AttentionProblem p = MakeProblem(Heads(6, 2), 64, std::move(batch));

  ExpectIsTheReference(p);
}

TEST_P(TileAttentionTest, ChunksOfPrefillAreTheReference) {
  int n = 0;
  for (const int group : {3, 4, 16}) {
    if (n++ % EveryNth(2) != 0) continue;
    HostBatch batch = PackTrees(
        std::vector<Parents>{ChainParents(300 / EveryNth(3)), ChainParents(1),
                             ChainParents(UniformInt(rng_, 50, 150))},
        {.chains = true, .spare_rows = 40, .spare_requests = 1});
    batch.committed[0] = UniformInt(rng_, 0, 200);
    batch.committed[1] = UniformInt(rng_, 0, 200);
    batch.committed[2] = 0;
    AttentionProblem p = MakeProblem(Heads(group, 2), 64, std::move(batch));
    SCOPED_TRACE(::testing::Message() << p);

    ExpectIsTheReference(p);
  }
}

TEST_P(TileAttentionTest, MasksOfManyWordsAreTheReference) {
  HostBatch batch = PackTrees(
      std::vector<Parents>{
          RandomParents(rng_,
                        {.num_nodes = 300, .max_depth = 120, .max_roots = 3}),
          ChainParents(65)},
      {.spare_rows = 1});
  batch.committed[0] = 37;
  AttentionProblem p = MakeProblem(Heads(3, 2), 64, std::move(batch));

  ExpectIsTheReference(p);
}

// As a drafter's lanes are: the nodes before a row are not in the batch, and
// those that it does not descend from were never written.
TEST_P(TileAttentionTest, ARowByItselfSeesItsAncestorsAlone) {
  HostBatch batch = PackTrees(std::vector<Parents>{RandomParentsOf(rng_, 128)});
  batch.committed[0] = 100;
  for (int row = 0; row < 128; row += 9 * EveryNth(3)) {
    AttentionProblem p = MakeProblem(Heads(4, 2), 64, OnlyRow(batch, row));
    SCOPED_TRACE(row);

    ExpectIsTheReference(p);
  }
}

TEST_P(TileAttentionTest, ANodeIsNearPlainDecodingOfItsPath) {
  HostBatch batch = PackTrees(std::vector<Parents>{RandomParentsOf(rng_, 70)});
  batch.committed[0] = 90;
  AttentionProblem tree = MakeProblem(Heads(4, 2), 64, std::move(batch));
  Attend(tree);
  for (int row = 0; row < 70; row += 9) {
    HostBatch root =
        PackTrees(std::vector<Parents>{{-1}}, {.chains = row % 2 == 0});
    root.committed[0] = static_cast<int>(tree.Visible(row).size()) - 1;
    AttentionProblem plain(rng_,
                           {.shape = tree.shape,
                            .page_size = 64,
                            .first_key = UniformInt(rng_, 0, 1)},
                           std::move(root));
    CopyAsPlain(tree, row, kLayer, plain);
    AttentionProblem got = plain;
    std::ranges::copy(
        tree.out.span(static_cast<size_t>(row) * tree.shape.query_width(),
                      tree.shape.query_width()),
        got.out.data());
    Attend(plain);
    SCOPED_TRACE(row);

    ExpectNear(got, plain, /*times=*/2);
  }
}

TEST_P(TileAttentionTest, RepeatsHaveTheSameBits) {
  HostBatch batch = PackTrees(std::vector<Parents>{RandomParentsOf(rng_, 50)});
  batch.committed[0] = 4000;
  AttentionProblem p = MakeProblem(Heads(4, 4), 64, std::move(batch));
  AttentionProblem again = p;
  Attend(p);
  for (int i = 0; i < 5; i += EveryNth(4)) {
    Attend(again);

    EXPECT_TRUE(SameBits(again.out.all(), p.out.all()));
  }
}

}  // namespace
}  // namespace bole::testing
