// PrepareQkv of the reference backend.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/qkv_problem.h"
#include "tests/testing/activations.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::AsActivations;
using ::bole::testing::AttentionProblem;
using ::bole::testing::HostBatch;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::kUntouched;
using ::bole::testing::OnlyRow;
using ::bole::testing::QkvProblem;
using ::bole::testing::RandomBatch;
using ::bole::testing::RandomShape;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

constexpr int kLayer = 1;

// 2^-i: angles have no rounding error at positions below 2^24.
std::vector<float> PowersOfTwo(int count) {
  std::vector<float> frequency(count);
  for (int i = 0; i < count; ++i) frequency[i] = std::ldexp(1.0f, -i);
  return frequency;
}

// Positions up to 300000. The gates are NaN: they are not read.
struct QkvCase : QkvProblem {
  explicit QkvCase(std::mt19937& rng) : QkvCase(rng, RandomShape(rng)) {}
  QkvCase(std::mt19937& rng, const AttentionShape& shape)
      : QkvProblem(
            rng,
            AttentionProblem(
                rng,
                {.shape = shape,
                 .page_size = UniformInt(rng, 16, 40),
                 .first_key = UniformInt(rng, 0, 1),
                 .with_prefix = false},
                RandomBatch(rng, UniformInt(rng, 0, 1) == 0 ? 10 : 300000)),
            PowersOfTwo(shape.rotary_dim / 2)) {}

  double angle_roundoffs = 0;  // Relative, of position * inverse_frequency.
};

// The definition, and what float arithmetic may be off by.
struct Rotated {
  std::vector<double> value;
  std::vector<double> tolerance;
};

Rotated NormAndRotate(const QkvCase& qkv, std::span<const float> x,
                      std::span<const float> weight, int position) {
  const int dim = static_cast<int>(x.size());
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  Rotated out;
  for (int c = 0; c < dim; ++c) {
    out.value.push_back(x[c] / std::sqrt(sum / dim + QkvCase::kEpsilon) *
                        weight[c]);
    // hd squares of one sign, halved by the root; a division, a sum, a root, a
    // reciprocal, two products.
    out.tolerance.push_back((dim / 2.0 + 6) * kFloatRoundoff *
                            std::abs(out.value[c]));
  }
  const int half = static_cast<int>(qkv.inverse_frequency.size());
  for (int c = 0; c < half; ++c) {
    const double angle =
        static_cast<double>(position) * qkv.inverse_frequency[c];
    const double a = out.value[c];
    const double b = out.value[c + half];
    const double scale = qkv.rotary_scale;
    out.value[c] = scale * (a * std::cos(angle) - b * std::sin(angle));
    out.value[c + half] = scale * (b * std::cos(angle) + a * std::sin(angle));
    // Cosine and sine round twice, their scaling, products and sum once.
    const double roundoffs = 5 + qkv.angle_roundoffs * angle;
    out.tolerance[c] = out.tolerance[c + half] =
        scale * (out.tolerance[c] + out.tolerance[c + half] +
                 roundoffs * kFloatRoundoff * (std::abs(a) + std::abs(b)));
  }
  return out;
}

void ExpectNear(std::span<const float> got, const Rotated& want) {
  for (size_t c = 0; c < got.size(); ++c) {
    ASSERT_NEAR(got[c], want.value[c], want.tolerance[c]) << "column " << c;
  }
}

// One row's q, k and v. What k and v hold there is copied to `written`.
void ExpectRow(QkvCase& qkv, int row, AttentionProblem& written) {
  AttentionProblem& p = qkv.p;
  const int request = p.batch.request[row];
  const int position = p.batch.committed[request] + p.batch.depth[row];
  for (int head = 0; head < p.shape.query_heads; ++head) {
    const auto x = qkv.Projected(row, 2 * head * p.shape.head_dim);
    ExpectNear(p.Query(row, head), NormAndRotate(qkv, x, qkv.q_norm, position));
  }
  for (int head = 0; head < p.shape.kv_heads; ++head) {
    const int column = head * p.shape.head_dim;
    const auto key = p.Key(kLayer, request, qkv.Index(row), head);
    const auto value = p.Value(kLayer, request, qkv.Index(row), head);
    ExpectNear(
        key, NormAndRotate(qkv, qkv.Projected(row, p.shape.k_column() + column),
                           qkv.k_norm, position));
    EXPECT_TRUE(
        SameBits(value, qkv.Projected(row, p.shape.v_column() + column)));
    std::ranges::copy(
        key, written.Key(kLayer, request, qkv.Index(row), head).begin());
    std::ranges::copy(
        value, written.Value(kLayer, request, qkv.Index(row), head).begin());
  }
}

void ExpectIsTheDefinition(QkvCase& qkv, AttentionProblem before) {
  AttentionProblem& p = qkv.p;
  for (int row = 0; row < p.batch.num_rows(); ++row) {
    SCOPED_TRACE(::testing::Message() << "row " << row);
    ExpectRow(qkv, row, before);
  }
  EXPECT_TRUE(SameBits(p.k.all(), before.k.all()));
  EXPECT_TRUE(SameBits(p.v.all(), before.v.all()));
  for (const float x : p.q.span(p.used_out(), p.q.size() - p.used_out())) {
    EXPECT_EQ(x, kUntouched);
  }
  EXPECT_TRUE(p.q.GuardsIntact() && p.k.GuardsIntact() && p.v.GuardsIntact());
}

TEST(PrepareQkvTest, NormalisesRotatesAndWritesItsNodesOnly) {
  std::mt19937 rng(1);
  ThreadPool pool(2);
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    QkvCase qkv(rng);
    const AttentionProblem before = qkv.p;

    PrepareQkv(qkv.Params(kLayer), pool);

    ExpectIsTheDefinition(qkv, before);
  }
}

TEST(PrepareQkvTest, TakesTheModelsFrequencies) {
  std::mt19937 rng(2);
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    QkvCase qkv(rng);
    qkv.angle_roundoffs = 1;
    const auto count = static_cast<double>(qkv.inverse_frequency.size());
    for (size_t i = 0; i < qkv.inverse_frequency.size(); ++i) {
      qkv.inverse_frequency[i] =
          static_cast<float>(std::pow(1e7, -static_cast<double>(i) / count));
    }
    const AttentionProblem before = qkv.p;

    PrepareQkv(qkv.Params(kLayer), pool);

    ExpectIsTheDefinition(qkv, before);
  }
}

TEST(PrepareQkvTest, ARowHasTheBitsItHasAlone) {
  std::mt19937 rng(3);
  ThreadPool pool(2);
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    QkvCase batch(rng);
    QkvCase alone = batch;
    PrepareQkv(batch.Params(kLayer), pool);

    for (int row = 0; row < batch.p.batch.num_rows(); ++row) {
      const HostBatch only = OnlyRow(batch.p.batch, row);
      QkvParams params = alone.Params(kLayer);
      params.batch = only.View();
      params.projected = AsActivations(alone.Projected(row, 0).data());
      params.q = AsActivations(alone.p.Query(row, 0).data());
      PrepareQkv(params, pool);
    }

    EXPECT_TRUE(SameBits(alone.p.q.all(), batch.p.q.all()));
    EXPECT_TRUE(SameBits(alone.p.k.all(), batch.p.k.all()));
    EXPECT_TRUE(SameBits(alone.p.v.all(), batch.p.v.all()));
  }
}

}  // namespace
}  // namespace bole::reference
