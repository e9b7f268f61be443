// Attention on the GPU.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/device_pages.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr int kLayer = 1;

class AttendTest : public CudaTest {
 protected:
  AttentionProblem MakeProblem(const AttentionShape& shape, int page_size,
                               int max_committed) {
    AttentionProblem p(rng_, {.shape = shape, .page_size = page_size},
                       RandomBatch(rng_, max_committed));
    p.FillInputs(rng_, kLayer);
    return p;
  }
  AttentionProblem MakeProblem() {
    return MakeProblem(RandomShape(rng_), UniformInt(rng_, 1, 64), 30);
  }

  // On the GPU. Returns what the GPU was given.
  AttentionProblem Attend(AttentionProblem& p) {
    DeviceCopies copies(*cuda_);
    AttentionParams params = p.Params(kLayer);
    params.batch = copies.Of(p.batch);
    params.pages = DevicePages(copies, p);
    params.q = copies.Activations(p.q);
    params.projected = copies.Activations(p.projected);
    params.out = copies.Activations(p.out);
    AttentionProblem given = p;
    const absl::Status status = cuda_->Attend(params);
    EXPECT_TRUE(status.ok()) << status;
    copies.Fetch();
    return given;
  }

  void ExpectIsTheReference(AttentionProblem& got, AttentionProblem& want) {
    for (int row = 0; row < want.batch.num_rows(); ++row) {
      for (int head = 0; head < want.shape.query_heads; ++head) {
        SCOPED_TRACE(::testing::Message()
                     << "row " << row << ", head " << head);
        ExpectHead(got.Out(row, head), want, row, head);
        if (HasFatalFailure()) return;
      }
    }
    const size_t used = want.used_out();
    EXPECT_TRUE(SameBits(got.out.span(used, got.out.size() - used),
                         want.out.span(used, want.out.size() - used)))
        << "a spare row was written";
    EXPECT_TRUE(SameBits(got.k.all(), want.k.all()));
    EXPECT_TRUE(SameBits(got.v.all(), want.v.all()));
  }

 private:
  // One head's output, with gate, after the reference ran on `want`.
  void ExpectHead(std::span<const float> got, AttentionProblem& want, int row,
                  int head);
};

double Norm(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

void AttendTest::ExpectHead(std::span<const float> got, AttentionProblem& want,
                            int row, int head) {
  const int dim = want.shape.head_dim;
  const int kv_head = head / (want.shape.query_heads / want.shape.kv_heads);
  const int request = want.batch.request[row];
  const std::vector<int> visible = want.Visible(row);
  double key_norm = 0;
  double largest_value = 0;
  for (const int index : visible) {
    key_norm =
        std::max(key_norm, Norm(want.Key(kLayer, request, index, kv_head)));
    for (const float v : want.Value(kLayer, request, index, kv_head)) {
      largest_value = std::max(largest_value, std::abs(double{v}));
    }
  }
  // No score is beyond this, nor the sum of the magnitudes in it.
  const double score = Norm(want.Query(row, head)) * key_norm / std::sqrt(dim);
  // A weight's relative error: a score's hd products and sums and its scaling,
  // which count in its own exponential and in the sum of all; the differences
  // of scores, at most twice the largest, that are rescaled by on the way;
  // exponentials and sums of every token and warp; the gate. On both sides.
  const double roundoffs = 2.01 * (dim + 3) * score + 4 * score +
                           8.0 * static_cast<double>(visible.size()) + 40;
  const double arithmetic = 2 * roundoffs * kFloatRoundoff * largest_value;
  for (int c = 0; c < dim; ++c) {
    const double expected = want.Out(row, head)[c];
    // The output is rounded once to what is stored.
    const double tolerance =
        arithmetic + roundoff() * (std::abs(expected) + arithmetic);
    ASSERT_TRUE(std::abs(got[c] - expected) <= tolerance)
        << "column " << c << ": " << got[c] << ", expected " << expected
        << " +- " << tolerance;
  }
}

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
  AttentionProblem p(rng_,
                     {.shape = {.query_heads = 6,
                                .kv_heads = 2,
                                .head_dim = 40,
                                .rotary_dim = 8}},
                     std::move(batch));
  p.FillInputs(rng_, kLayer);

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
    AttentionProblem masked(rng_, {.shape = RandomShape(rng_)},
                            std::move(batch));
    masked.FillInputs(rng_, kLayer);
    AttentionProblem unmasked = masked;
    unmasked.batch.mask_words = 0;
    unmasked.batch.ancestors = GuardedBuffer<uint32_t>(0);

    Attend(masked);
    Attend(unmasked);

    EXPECT_TRUE(SameBits(unmasked.out.all(), masked.out.all()));
  }
}

// Copies the inputs of a row of `from` to row 0 of `to`, and the keys and
// values that it sees to KV indices 0, 1, ...
void CopyAsPlain(AttentionProblem& from, int row, AttentionProblem& to) {
  const int request = from.batch.request[row];
  int next = 0;
  for (const int index : from.Visible(row)) {
    for (int head = 0; head < from.shape.kv_heads; ++head) {
      std::ranges::copy(from.Key(kLayer, request, index, head),
                        to.Key(kLayer, 0, next, head).begin());
      std::ranges::copy(from.Value(kLayer, request, index, head),
                        to.Value(kLayer, 0, next, head).begin());
    }
    ++next;
  }
  for (int head = 0; head < from.shape.query_heads; ++head) {
    std::ranges::copy(from.Query(row, head), to.Query(0, head).begin());
    std::ranges::copy(from.Gate(row, head), to.Gate(0, head).begin());
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
      CopyAsPlain(tree, row, plain);
      Attend(plain);

      const size_t width = tree.shape.query_width();
      EXPECT_TRUE(SameBits(plain.out.all(), tree.out.span(row * width, width)))
          << "row " << row;
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
