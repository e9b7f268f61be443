#include "kernels/reference/gdn_conv.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::AsActivations;
using ::bole::testing::CommitSomething;
using ::bole::testing::GdnProblem;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::HostBatch;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::NormalVector;
using ::bole::testing::PackTrees;
using ::bole::testing::Parents;
using ::bole::testing::PathTo;
using ::bole::testing::Poison;
using ::bole::testing::RandomForest;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

struct ConvProblem {
  GdnProblem gdn;
  GuardedBuffer<float> projected;              // [N, projected_width]
  std::vector<float> weight;                   // [C, taps]
  std::vector<float> negative_exp_a, dt_bias;  // [Hv]

  GdnConvParams Params(int layer) {
    return {.batch = gdn.batch.View(),
            .shape = gdn.shape,
            .states = gdn.States(),
            .layer = layer,
            .projected = AsActivations(projected.data()),
            .conv_weight = weight.data(),
            .negative_exp_a = negative_exp_a.data(),
            .dt_bias = dt_bias.data(),
            .q = AsActivations(gdn.q.data()),
            .q_scale = gdn.q_scale.data(),
            .factors = gdn.Factors()};
  }
  float Projected(int row, int column) const {
    return projected[static_cast<size_t>(row) * gdn.shape.projected_width() +
                     column];
  }
};

void PoisonOutputs(GdnProblem& p) {
  for (auto* buffer : {&p.q, &p.q_scale, &p.raw, &p.k, &p.v, &p.k_scale,
                       &p.beta, &p.log_decay}) {
    std::fill_n(buffer->data(), buffer->size(), Poison<float>());
  }
}

// Gate columns take both tails and both sides of softplus's identity.
void FillProjected(std::mt19937& rng, ConvProblem& p) {
  constexpr float kGates[] = {-100, -30, -1, 0, 6, 12, 20, 21, 100};
  const GdnShape& s = p.gdn.shape;
  for (int row = 0; row < p.gdn.batch.num_rows(); ++row) {
    const auto values = p.projected.span(
        static_cast<size_t>(row) * s.projected_width(), s.projected_width());
    testing::FillNormal(rng, 1, values);
    for (int c = s.b_column(); c < s.projected_width(); ++c) {
      if (UniformInt(rng, 0, 1) == 0) values[c] = kGates[UniformInt(rng, 0, 8)];
    }
  }
}

// A random forest; the first request starts its sequence. The oldest row of
// every window is NaN: taps - 1 of them are read.
ConvProblem MakeProblem(std::mt19937& rng) {
  HostBatch batch = PackTrees(RandomForest(rng, 5, 20),
                              {.spare_rows = 2, .spare_requests = 1});
  CommitSomething(rng, 7, batch);
  batch.committed[0] = 0;
  const int key_heads = UniformInt(rng, 1, 3);
  const GdnShape shape = {.key_heads = key_heads,
                          .value_heads = key_heads * UniformInt(rng, 1, 4),
                          .key_dim = UniformInt(rng, 1, 40),
                          .value_dim = UniformInt(rng, 1, 40),
                          .conv_taps = UniformInt(rng, 1, 5)};
  GdnProblem gdn(rng, {.shape = shape, .num_layers = 2}, std::move(batch));
  PoisonOutputs(gdn);
  for (int b = 0; b < gdn.batch.num_requests(); ++b) {
    std::ranges::fill(gdn.Window(b, 1).first(shape.conv_width()),
                      Poison<float>());
  }
  const size_t rows = gdn.batch.max_rows();
  ConvProblem p = {
      .gdn = std::move(gdn),
      .projected = GuardedBuffer<float>(rows * shape.projected_width()),
      .weight = NormalVector(
          rng, static_cast<size_t>(shape.conv_width()) * shape.conv_taps),
      .negative_exp_a = NormalVector(rng, shape.value_heads),
      .dt_bias = NormalVector(rng, shape.value_heads)};
  for (float& a : p.negative_exp_a) a = -std::exp(a);
  FillProjected(rng, p);
  return p;
}

// One channel of the sequence that ends in a node: the slot's window, or zeros,
// then the path to the node.
std::vector<double> ChannelSequence(ConvProblem& p, int request, int node,
                                    int channel) {
  const GdnShape& s = p.gdn.shape;
  const std::vector<int> path = PathTo(p.gdn.batch.trees[request], node);
  std::vector<double> sequence;
  sequence.reserve(s.conv_taps + path.size());
  for (int t = 0; t < s.conv_taps; ++t) {
    sequence.push_back(
        p.gdn.batch.committed[request] == 0 || t == 0
            ? 0
            : p.gdn.Window(request, 1)[t * s.conv_width() + channel]);
  }
  for (const int j : path) {
    sequence.push_back(
        p.Projected(p.gdn.batch.first_row[request] + j, channel));
  }
  return sequence;
}

// Four products and their sum, then SiLU, whose slope is at most 1.1 and whose
// evaluation takes four more roundings.
void ExpectConvolved(ConvProblem& p, int row, int channel, float got) {
  const int taps = p.gdn.shape.conv_taps;
  const std::vector<double> sequence = ChannelSequence(
      p, p.gdn.batch.request[row], p.gdn.batch.node[row], channel);
  double sum = 0;
  double magnitude = 0;
  for (int t = 0; t < taps; ++t) {
    const double product = sequence[sequence.size() - taps + t] *
                           p.weight[static_cast<size_t>(channel) * taps + t];
    sum += product;
    magnitude += std::abs(product);
  }
  const double want = sum / (1 + std::exp(-sum));
  ASSERT_NEAR(got, want, (1.1 * taps + 4) * kFloatRoundoff * magnitude)
      << "row " << row << " channel " << channel;
}

TEST(GdnConvTest, ConvolvesAlongThePathAndIntoTheWindow) {
  ThreadPool pool(2);
  std::mt19937 rng(1);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    ConvProblem p = MakeProblem(rng);
    const GdnShape& s = p.gdn.shape;

    GdnConv(p.Params(1), pool);

    for (int row = 0; row < p.gdn.batch.num_rows(); ++row) {
      const float* q = p.gdn.q.data() + row * s.key_width();
      const float* k = p.gdn.k.data() + p.gdn.KeyRow(1, row, 0) * s.key_dim;
      const float* v = p.gdn.v.data() + p.gdn.ValueRow(1, row, 0) * s.value_dim;
      for (int c = 0; c < s.key_width(); ++c) {
        ExpectConvolved(p, row, c, q[c]);
        ExpectConvolved(p, row, s.key_width() + c, k[c]);
      }
      for (int c = 0; c < s.value_width(); ++c) {
        ExpectConvolved(p, row, 2 * s.key_width() + c, v[c]);
      }
    }
  }
}

// 1 / sqrt(sum x^2 + 1e-6): dk squares and sums of one sign, the root halves
// their error; a few roundings after it.
void ExpectScale(std::span<const float> x, double factor, float got) {
  double sum = 1e-6;
  for (const float value : x) sum += static_cast<double>(value) * value;
  const double want = factor / std::sqrt(sum);
  const double roundoffs = static_cast<double>(x.size()) / 2 + 5;
  EXPECT_NEAR(got, want, roundoffs * kFloatRoundoff * want);
}

TEST(GdnConvTest, ScalesAreInverseNorms) {
  ThreadPool pool(2);
  std::mt19937 rng(2);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    ConvProblem p = MakeProblem(rng);
    const GdnShape& s = p.gdn.shape;

    GdnConv(p.Params(1), pool);

    for (int row = 0; row < p.gdn.batch.num_rows(); ++row) {
      for (int head = 0; head < s.key_heads; ++head) {
        const size_t q_row = p.gdn.KeyRow(0, row, head);
        const size_t k_row = p.gdn.KeyRow(1, row, head);
        ExpectScale(p.gdn.q.span(q_row * s.key_dim, s.key_dim),
                    1 / std::sqrt(s.key_dim), p.gdn.q_scale[q_row]);
        ExpectScale(p.gdn.k.span(k_row * s.key_dim, s.key_dim), 1,
                    p.gdn.k_scale[k_row]);
      }
    }
  }
}

// Each is a handful of roundings of functions that amplify none: x - 20 and
// beyond is the identity, and below float32's range is zero.
TEST(GdnConvTest, GatesAreSigmoidAndDecayedSoftplus) {
  ThreadPool pool(2);
  std::mt19937 rng(3);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    ConvProblem p = MakeProblem(rng);
    const GdnShape& s = p.gdn.shape;

    GdnConv(p.Params(1), pool);

    for (int row = 0; row < p.gdn.batch.num_rows(); ++row) {
      for (int head = 0; head < s.value_heads; ++head) {
        const double b = p.Projected(row, s.b_column() + head);
        const float a = p.Projected(row, s.a_column() + head) + p.dt_bias[head];
        const double beta = 1 / (1 + std::exp(-b));
        const double decay =
            p.negative_exp_a[head] * std::log1p(std::exp(double{a}));
        const size_t i = p.gdn.ValueRow(1, row, head);
        EXPECT_NEAR(p.gdn.beta[i], beta, 6 * kFloatRoundoff * beta + 1e-37);
        EXPECT_NEAR(p.gdn.log_decay[i], decay,
                    6 * kFloatRoundoff * std::abs(decay) + 1e-37);
        EXPECT_LE(p.gdn.log_decay[i], 0);
      }
    }
  }
}

TEST(GdnConvTest, RecordsTheRawRowsAndTouchesNothingElse) {
  ThreadPool pool(2);
  std::mt19937 rng(4);
  ConvProblem p = MakeProblem(rng);
  const GdnShape& s = p.gdn.shape;
  const GdnProblem before = p.gdn;

  GdnConv(p.Params(1), pool);

  GdnProblem want = p.gdn;
  want.raw = before.raw;
  for (int row = 0; row < p.gdn.batch.num_rows(); ++row) {
    for (int c = 0; c < s.conv_width(); ++c) {
      want.raw[p.gdn.RawRow(1, row) * s.conv_width() + c] = p.Projected(row, c);
    }
  }
  EXPECT_TRUE(SameBits(p.gdn.raw.all(), want.raw.all()));
  EXPECT_TRUE(SameBits(p.gdn.window.all(), before.window.all()));
  EXPECT_TRUE(SameBits(p.gdn.state.all(), before.state.all()));
  const size_t layer = p.gdn.v.size() / 2;
  EXPECT_TRUE(SameBits(p.gdn.v.span(0, layer), before.v.span(0, layer)));
  const size_t used = p.gdn.ValueRow(1, p.gdn.batch.num_rows(), 0);
  EXPECT_TRUE(SameBits(p.gdn.beta.span(used, p.gdn.beta.size() - used),
                       before.beta.span(used, before.beta.size() - used)));
  EXPECT_TRUE(p.gdn.GuardsIntact());
}

TEST(GdnConvTest, LayersMayShareTheirFactors) {
  ThreadPool pool(1);
  std::mt19937 rng(5);
  ConvProblem apart = MakeProblem(rng);
  ConvProblem shared = apart;
  GdnConvParams params = shared.Params(1);
  params.factors.layer_rows = 0;

  GdnConv(apart.Params(1), pool);
  GdnConv(params, pool);

  const size_t size = apart.gdn.v.size() / 2;
  EXPECT_TRUE(
      SameBits(shared.gdn.v.span(0, size), apart.gdn.v.span(size, size)));
}

}  // namespace
}  // namespace bole::reference
