// Attention on the GPU, by the kernel for all shapes.
#include "kernels/attention.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/cuda/attention/attend_test.h"
#include "tests/kernels/cuda/attention/device_pages.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

BOLE_FOR_EACH_ELEMENT(AttendTest);

TEST_P(AttendTest, IsTheReferenceOnRandomShapes) {
  for (int round = 0; round < 20; ++round) {
    AttentionProblem p = MakeProblem();
    SCOPED_TRACE(::testing::Message() << "round " << round << ": " << p);

    AttentionProblem want = Attend(p);

    ASSERT_TRUE(reference_.Attend(want.Params(kLayer)).ok());
    ExpectIsTheReference(p, want);
  }
}

TEST_P(AttendTest, IsTheReferenceOnNotedShapes) {
  for (const AttentionShape& shape : NotedShapes()) {
    AttentionProblem p = MakeProblem(shape, UniformInt(rng_, 1, 64), 200);
    SCOPED_TRACE(::testing::Message() << p);

    AttentionProblem want = Attend(p);

    ASSERT_TRUE(reference_.Attend(want.Params(kLayer)).ok());
    ExpectIsTheReference(p, want);
  }
}

// Masks of many words, paths of several entries for each warp.
TEST_P(AttendTest, IsTheReferenceOnLargeTrees) {
  const std::vector<Parents> trees = {
      RandomParents(rng_, {.num_nodes = 300, .max_depth = 120, .max_roots = 3}),
      ChainParents(65)};
  HostBatch batch = PackTrees(trees, {.spare_rows = 1});
  batch.committed[0] = 3;
  AttentionProblem p = MakeProblem(
      {.query_heads = 6, .kv_heads = 2, .head_dim = 40, .rotary_dim = 8},
      /*page_size=*/4, std::move(batch));

  AttentionProblem want = Attend(p);

  ASSERT_TRUE(reference_.Attend(want.Params(kLayer)).ok());
  ExpectIsTheReference(p, want);
}

TEST_P(AttendTest, WithoutMasksEveryRequestIsAChain) {
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    const std::vector<Parents> chains = {ChainParents(UniformInt(rng_, 1, 70)),
                                         ChainParents(UniformInt(rng_, 1, 9))};
    HostBatch batch = PackTrees(chains);
    for (int b = 0; b < 2; ++b) batch.committed[b] = UniformInt(rng_, 0, 20);
    AttentionProblem masked =
        MakeProblem(RandomShape(rng_), /*page_size=*/4, std::move(batch));
    AttentionProblem unmasked = masked;
    unmasked.batch.mask_words = 0;
    unmasked.batch.ancestors = GuardedBuffer<uint32_t>(0);

    Attend(masked);
    Attend(unmasked);

    EXPECT_TRUE(SameBits(unmasked.out.all(), masked.out.all()));
  }
}

// So a row sees nothing else, does not depend on the rows beside it, and a
// verified token is what decoding would have come to.
TEST_P(AttendTest, ANodeHasTheBitsOfPlainDecodingOfItsPath) {
  const std::vector<Parents> root = {{-1}};
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    AttentionProblem tree = MakeProblem();
    Attend(tree);

    for (int row = 0; row < tree.batch.num_rows(); row += 3) {
      HostBatch batch = PackTrees(root, {.chains = row % 2 == 0});
      batch.committed[0] = static_cast<int>(tree.Visible(row).size()) - 1;
      AttentionProblem plain(
          rng_, {.shape = tree.shape, .page_size = UniformInt(rng_, 1, 9)},
          std::move(batch));
      CopyAsPlain(tree, row, kLayer, plain);
      Attend(plain);

      const size_t width = tree.shape.query_width();
      EXPECT_TRUE(SameBits(plain.out.all(), tree.out.span(row * width, width)))
          << "row " << row;
    }
  }
}

// Down to a row that sees itself alone, at the edges of pages.
TEST_P(AttendTest, BitsDoNotDependOnTheFirstKey) {
  int n = 0;
  for (const int nodes : {1, 2, 64, 65, 128}) {
    for (const int committed : {0, 1, 15, 16}) {
      if (n++ % EveryNth(5) != 0) continue;
      HostBatch batch =
          PackTrees(std::vector<Parents>{RandomParentsOf(rng_, nodes), {-1}});
      batch.committed[0] = committed;
      AttentionProblem p = MakeProblem(RandomShape(rng_), /*page_size=*/16,
                                       std::move(batch), /*first_key=*/0);
      AttentionProblem later = WithFirstKey(rng_, p, kLayer, 1);
      SCOPED_TRACE(::testing::Message() << committed << " + " << nodes);

      Attend(p);
      Attend(later);

      EXPECT_TRUE(SameBits(later.out.all(), p.out.all()));
    }
  }
}

TEST_P(AttendTest, WideHeadsAreNotSupported) {
  AttentionProblem p(rng_,
                     {.shape = {.query_heads = 1,
                                .kv_heads = 1,
                                .head_dim = 257,
                                .rotary_dim = 2}},
                     RandomBatch(rng_, 3));

  const absl::Status status = cuda_->Attend(p.Params(kLayer));

  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

}  // namespace
}  // namespace bole::testing
