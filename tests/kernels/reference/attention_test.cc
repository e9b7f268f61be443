#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::AttentionProblem;
using ::bole::testing::ChainParents;
using ::bole::testing::CopyAsPlain;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::HostBatch;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::kUntouched;
using ::bole::testing::OnlyRow;
using ::bole::testing::PackTrees;
using ::bole::testing::Parents;
using ::bole::testing::RandomBatch;
using ::bole::testing::RandomParentsOf;
using ::bole::testing::RandomShape;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;
using ::bole::testing::WithFirstKey;

constexpr int kLayer = 1;

AttentionProblem MakeProblem(std::mt19937& rng) {
  AttentionProblem p(rng,
                     {.shape = RandomShape(rng),
                      .page_size = UniformInt(rng, 1, 9),
                      .first_key = UniformInt(rng, 0, 1)},
                     RandomBatch(rng, 30));
  p.FillInputs(rng, kLayer);
  return p;
}

std::span<const float> OutRow(const AttentionProblem& p, size_t row) {
  return p.out.span(row * p.shape.query_width(), p.shape.query_width());
}

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

double DotOfMagnitudes(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(static_cast<double>(a[i]) * b[i]);
  }
  return sum;
}

// Softmax weights of a row's visible tokens, and their relative error in float.
struct Weights {
  std::vector<double> value;
  double error;
};

Weights WeightsOf(AttentionProblem& p, int row, int head) {
  const int kv_head = head / (p.shape.query_heads / p.shape.kv_heads);
  const double scale = 1 / std::sqrt(p.shape.head_dim);
  std::vector<double> score;
  double score_error = 0;
  for (const int index : p.Visible(row)) {
    const auto key = p.Key(kLayer, p.batch.request[row], index, kv_head);
    score.push_back(scale * Dot(p.Query(row, head), key));
    // hd products and sums, the scale and its product.
    score_error =
        std::max(score_error, (p.shape.head_dim + 3) * kFloatRoundoff * scale *
                                  DotOfMagnitudes(p.Query(row, head), key));
  }
  const auto [min, max] = std::ranges::minmax(score);
  double sum = 0;
  for (double& s : score) sum += s = std::exp(s - max);
  for (double& s : score) s /= sum;
  // A score counts in its own exponential and in the sum of all. Differences
  // of max - min, exponentials, their sum and the division round as well.
  const double roundoffs =
      2 * (max - min) + static_cast<double>(score.size()) + 4;
  return {std::move(score), 2.01 * score_error + roundoffs * kFloatRoundoff};
}

void ExpectIsGatedAttention(AttentionProblem& p, int row, int head) {
  const int kv_head = head / (p.shape.query_heads / p.shape.kv_heads);
  const Weights weights = WeightsOf(p, row, head);
  const std::vector<int> visible = p.Visible(row);
  for (int c = 0; c < p.shape.head_dim; ++c) {
    double want = 0;
    double magnitude = 0;
    for (size_t i = 0; i < visible.size(); ++i) {
      const double v =
          p.Value(kLayer, p.batch.request[row], visible[i], kv_head)[c];
      want += weights.value[i] * v;
      magnitude += weights.value[i] * std::abs(v);
    }
    const double gate = 1 / (1 + std::exp(-double{p.Gate(row, head)[c]}));
    // The sum over what is visible, then the gate's four roundings and its
    // product.
    const double relative =
        weights.error +
        (static_cast<double>(visible.size()) + 6) * kFloatRoundoff;
    ASSERT_NEAR(p.Out(row, head)[c], want * gate, relative * magnitude * gate)
        << "row " << row << ", head " << head << ", column " << c;
  }
}

TEST(AttendTest, IsGatedSoftmaxAttention) {
  std::mt19937 rng(1);
  ThreadPool pool(2);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    AttentionProblem p = MakeProblem(rng);

    Attend(p.Params(kLayer), pool);

    for (int row = 0; row < p.batch.num_rows(); ++row) {
      for (int head = 0; head < p.shape.query_heads; ++head) {
        ExpectIsGatedAttention(p, row, head);
      }
    }
    for (const float x :
         p.out.span(p.used_out(), p.out.size() - p.used_out())) {
      EXPECT_EQ(x, kUntouched);
    }
    EXPECT_TRUE(p.out.GuardsIntact());
  }
}

// All keys and values NaN but those that the row may see.
AttentionProblem PoisonedButFor(const AttentionProblem& p, int row) {
  AttentionProblem poisoned = p;
  AttentionProblem source = p;
  poisoned.k = GuardedBuffer<float>(p.k.size());
  poisoned.v = GuardedBuffer<float>(p.v.size());
  const int request = p.batch.request[row];
  for (const int index : p.Visible(row)) {
    for (int head = 0; head < p.shape.kv_heads; ++head) {
      std::ranges::copy(source.Key(kLayer, request, index, head),
                        poisoned.Key(kLayer, request, index, head).begin());
      std::ranges::copy(source.Value(kLayer, request, index, head),
                        poisoned.Value(kLayer, request, index, head).begin());
    }
  }
  return poisoned;
}

TEST(AttendTest, ANodeSeesThePrefixItsAncestorsAndItselfOnly) {
  std::mt19937 rng(2);
  ThreadPool pool(2);
  for (int round = 0; round < 15; ++round) {
    SCOPED_TRACE(round);
    AttentionProblem p = MakeProblem(rng);
    Attend(p.Params(kLayer), pool);

    for (int row = 0; row < p.batch.num_rows(); ++row) {
      AttentionProblem poisoned = PoisonedButFor(p, row);
      Attend(poisoned.Params(kLayer), pool);

      ASSERT_TRUE(SameBits(OutRow(poisoned, row), OutRow(p, row)))
          << "row " << row;
    }
  }
}

TEST(AttendTest, ARowHasTheBitsItHasAlone) {
  std::mt19937 rng(3);
  ThreadPool pool(2);
  for (int round = 0; round < 15; ++round) {
    SCOPED_TRACE(round);
    AttentionProblem p = MakeProblem(rng);
    Attend(p.Params(kLayer), pool);

    for (int row = 0; row < p.batch.num_rows(); ++row) {
      const HostBatch only = OnlyRow(p.batch, row);
      std::vector<float> alone(p.shape.query_width());
      AttentionParams params = p.Params(kLayer);
      params.batch = only.View();
      params.q = testing::AsActivations(p.Query(row, 0).data());
      params.projected = testing::AsActivations(p.projected.data() +
                                                static_cast<size_t>(row) *
                                                    p.shape.projected_width());
      params.out = testing::AsActivations(alone.data());
      Attend(params, pool);

      ASSERT_TRUE(SameBits(alone, OutRow(p, row))) << "row " << row;
    }
  }
}

TEST(AttendTest, BitsDoNotDependOnTheNumberOfThreads) {
  std::mt19937 rng(4);
  ThreadPool one(1);
  ThreadPool three(3);
  AttentionProblem p = MakeProblem(rng);
  AttentionProblem same = p;

  Attend(p.Params(kLayer), one);
  Attend(same.Params(kLayer), three);

  EXPECT_TRUE(SameBits(same.out.all(), p.out.all()));
}

// The sums run over the KV indices in order, wherever the tokens are.
TEST(AttendTest, ANodeHasTheBitsOfPlainDecodingOfItsPath) {
  std::mt19937 rng(5);
  ThreadPool pool(2);
  const std::vector<Parents> root = {{-1}};
  for (int round = 0; round < 15; ++round) {
    SCOPED_TRACE(round);
    AttentionProblem tree = MakeProblem(rng);
    Attend(tree.Params(kLayer), pool);

    for (int row = 0; row < tree.batch.num_rows(); ++row) {
      HostBatch batch = PackTrees(root, {.chains = round % 2 == 0});
      batch.committed[0] = static_cast<int>(tree.Visible(row).size()) - 1;
      AttentionProblem plain(rng,
                             {.shape = tree.shape,
                              .page_size = UniformInt(rng, 1, 9),
                              .first_key = UniformInt(rng, 0, 1)},
                             std::move(batch));
      CopyAsPlain(tree, row, kLayer, plain);
      Attend(plain.Params(kLayer), pool);

      ASSERT_TRUE(SameBits(plain.out.all(), OutRow(tree, row))) << row;
    }
  }
}

TEST(AttendTest, WithoutMasksEveryRequestIsAChain) {
  std::mt19937 rng(6);
  ThreadPool pool(2);
  for (int round = 0; round < 15; ++round) {
    SCOPED_TRACE(round);
    const std::vector<Parents> chains = {ChainParents(UniformInt(rng, 1, 70)),
                                         ChainParents(UniformInt(rng, 1, 9))};
    HostBatch batch = PackTrees(chains);
    for (int b = 0; b < 2; ++b) batch.committed[b] = UniformInt(rng, 0, 20);
    AttentionProblem masked(
        rng, {.shape = RandomShape(rng), .first_key = UniformInt(rng, 0, 1)},
        std::move(batch));
    masked.FillInputs(rng, kLayer);
    AttentionProblem unmasked = masked;
    unmasked.batch.mask_words = 0;
    unmasked.batch.ancestors = GuardedBuffer<uint32_t>(0);

    Attend(masked.Params(kLayer), pool);
    Attend(unmasked.Params(kLayer), pool);

    EXPECT_TRUE(SameBits(unmasked.out.all(), masked.out.all()));
  }
}

// Down to a row that sees itself alone, at the edges of pages. What lies before
// the first key is NaN.
TEST(AttendTest, BitsDoNotDependOnTheFirstKey) {
  std::mt19937 rng(7);
  ThreadPool pool(2);
  for (const int nodes : {1, 2, 3, 63, 64, 65, 127, 128}) {
    for (const int committed : {0, 1, 15, 16, 64}) {
      const bool chains = UniformInt(rng, 0, 1) == 0;
      const Parents parents =
          chains ? ChainParents(nodes) : RandomParentsOf(rng, nodes);
      HostBatch batch =
          PackTrees(std::vector<Parents>{parents, {-1}}, {.chains = chains});
      batch.committed[0] = committed;
      const int page_sizes[] = {1, 16, 64};
      AttentionProblem p(rng,
                         {.shape = RandomShape(rng),
                          .page_size = page_sizes[UniformInt(rng, 0, 2)]},
                         std::move(batch));
      p.FillInputs(rng, kLayer);
      AttentionProblem later = WithFirstKey(rng, p, kLayer, 1);
      SCOPED_TRACE(::testing::Message() << committed << " + " << nodes);

      Attend(p.Params(kLayer), pool);
      Attend(later.Params(kLayer), pool);

      for (int head = 0; head < p.shape.kv_heads; ++head) {
        ASSERT_TRUE(std::isnan(later.Key(kLayer, 0, 0, head)[0]));
        ASSERT_TRUE(std::isnan(later.Value(kLayer, 1, 0, head)[0]));
      }
      EXPECT_TRUE(SameBits(later.out.all(), p.out.all()));
      for (const float x : p.out.span(0, p.used_out())) {
        ASSERT_TRUE(std::isfinite(x));
      }
    }
  }
}

}  // namespace
}  // namespace bole::reference
