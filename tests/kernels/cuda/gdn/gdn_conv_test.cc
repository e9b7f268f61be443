// The front of a linear layer and its gated norm on the GPU.
#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/gdn/device_front.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

class GdnConvTest : public CudaTest {
 protected:
  // Runs the front of the problem on the GPU and on the reference.
  void ExpectFront(FrontProblem got);
  void ExpectRow(const GdnProblem& got, const GdnProblem& want, int row);

  // |got - want| <= tolerance * (|want| + scale), element by element.
  void ExpectClose(std::span<const float> got, std::span<const float> want,
                   double tolerance, const std::string& what) {
    for (size_t i = 0; i < want.size(); ++i) {
      const double bound = tolerance * (std::abs(want[i]) + 1);
      ASSERT_TRUE(std::abs(static_cast<double>(got[i]) - want[i]) <= bound)
          << what << " " << i << ": " << got[i] << ", expected " << want[i];
    }
  }
};

BOLE_FOR_EACH_ELEMENT(GdnConvTest);

// Heads as the models have them, and any others.
GdnShape RandomShape(std::mt19937& rng) {
  constexpr std::array kDims = {1, 7, 32, 40, 128};
  const int key_heads = UniformInt(rng, 1, 3);
  if (UniformInt(rng, 0, 1) == 0) {
    constexpr std::array kGroups = {4, 2, 4};
    return {.key_heads = key_heads,
            .value_heads = key_heads * kGroups[key_heads - 1],
            .key_dim = 128,
            .value_dim = 128,
            .conv_taps = 4};
  }
  return {.key_heads = key_heads,
          .value_heads = key_heads * UniformInt(rng, 1, 4),
          .key_dim = kDims[UniformInt(rng, 0, 4)],
          .value_dim = kDims[UniformInt(rng, 0, 4)],
          .conv_taps = UniformInt(rng, 1, 5)};
}

FrontProblem MakeProblem(std::mt19937& rng) {
  HostBatch batch = PackTrees(RandomForest(rng, 5, 40),
                              {.spare_rows = 2, .spare_requests = 1});
  CommitSomething(rng, 7, batch);
  batch.committed[0] = 0;
  return FrontProblem(rng, std::move(batch), RandomShape(rng));
}

GdnConvParams HostParams(FrontProblem& p) {
  return {.batch = p.gdn.batch.View(),
          .shape = p.gdn.shape,
          .states = p.gdn.States(),
          .layer = 1,
          .projected = AsActivations(p.projected.data()),
          .conv_weight = p.weight.data(),
          .negative_exp_a = p.negative_exp_a.data(),
          .dt_bias = p.dt_bias.data(),
          .q = AsActivations(p.gdn.q.data()),
          .q_scale = p.gdn.q_scale.data(),
          .factors = p.gdn.Factors()};
}

void GdnConvTest::ExpectFront(FrontProblem got) {
  DeviceCopies copies(*cuda_);
  const DeviceFront device(got, copies);
  FrontProblem want = got;

  const absl::Status status = cuda_->GdnConv(device.Conv(1));
  copies.Fetch();
  ASSERT_TRUE(reference_.GdnConv(HostParams(want)).ok());

  ASSERT_TRUE(status.ok()) << status;
  for (int row = 0; row < got.gdn.batch.num_rows(); ++row) {
    ExpectRow(got.gdn, want.gdn, row);
    if (HasFailure()) return;
  }
}

// Stored values are rounded once. Scales are computed from what is stored:
// their relative error is that of a norm, and for the few, small values of a
// narrow head up to 100 times that of a sum of products that cancel.
void GdnConvTest::ExpectRow(const GdnProblem& g, const GdnProblem& w, int row) {
  const double stored = 4 * roundoff() + 1e-6;
  const double scales = is_float() ? 1e-4 : stored;
  const GdnShape& s = g.shape;
  const size_t key = static_cast<size_t>(row) * s.key_width();
  ExpectClose(g.q.span(key, s.key_width()), w.q.span(key, s.key_width()),
              stored, "q");
  const size_t k_at = g.KeyRow(1, row, 0) * s.key_dim;
  ExpectClose(g.k.span(k_at, s.key_width()), w.k.span(k_at, s.key_width()),
              stored, "k");
  const size_t v_at = g.ValueRow(1, row, 0) * s.value_dim;
  ExpectClose(g.v.span(v_at, s.value_width()), w.v.span(v_at, s.value_width()),
              stored, "v");
  const size_t raw_at = g.RawRow(1, row) * s.conv_width();
  EXPECT_TRUE(SameBits(g.raw.span(raw_at, s.conv_width()),
                       w.raw.span(raw_at, s.conv_width())));
  const size_t gates = g.ValueRow(1, row, 0);
  ExpectClose(g.beta.span(gates, s.value_heads),
              w.beta.span(gates, s.value_heads), 1e-6, "beta");
  ExpectClose(g.log_decay.span(gates, s.value_heads),
              w.log_decay.span(gates, s.value_heads), 2e-6, "log_decay");
  for (int head = 0; head < s.key_heads; ++head) {
    const float scale = w.k_scale[w.KeyRow(1, row, head)];
    EXPECT_NEAR(g.k_scale[g.KeyRow(1, row, head)] / scale, 1, scales);
    const size_t at = static_cast<size_t>(row) * s.key_heads + head;
    EXPECT_NEAR(g.q_scale[at] / w.q_scale[at], 1, scales);
  }
}

TEST_P(GdnConvTest, ComputesFactorsScalesAndGates) {
  for (int round = 0; round < 40; round += EveryNth(5)) {
    SCOPED_TRACE(round);
    ExpectFront(MakeProblem(rng_));
    if (HasFailure()) return;
  }
}

// So many rows that a thread computes several.
TEST_P(GdnConvTest, ComputesTheFrontOfManyRows) {
  std::vector<Parents> trees;
  trees.reserve(14);
  for (int b = 0; b < 14; ++b) {
    trees.push_back(RandomParents(
        rng_, {.num_nodes = b == 3 ? 1 : 120, .max_depth = 9, .max_roots = 2}));
  }
  HostBatch batch = PackTrees(trees, {.spare_rows = 61, .spare_requests = 2});
  CommitSomething(rng_, 16, batch);
  ExpectFront(FrontProblem(rng_, std::move(batch),
                           {.key_heads = 4,
                            .value_heads = 12,
                            .key_dim = 128,
                            .value_dim = 128,
                            .conv_taps = 4}));
}

TEST_P(GdnConvTest, NormalisesAndGates) {
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    FrontProblem p = MakeProblem(rng_);
    const GdnShape s = p.gdn.shape;
    const int num_rows = p.gdn.batch.num_rows();
    const size_t used = static_cast<size_t>(num_rows) * s.value_width();
    GuardedBuffer<float> o(static_cast<size_t>(p.gdn.batch.max_rows()) *
                           s.value_width());
    GuardedBuffer<float> got(o.size());
    GuardedBuffer<float> want(o.size());
    FillNormal(rng_, 2, o.span(0, used));
    const std::vector<float> weight = NormalVector(rng_, s.value_dim);
    DeviceCopies copies(*cuda_);
    const RowBatch batch = copies.Of(p.gdn.batch);

    const absl::Status status =
        cuda_->GdnGatedNorm({.rows = batch.rows,
                             .shape = s,
                             .epsilon = 1e-6f,
                             .o = copies.Activations(o),
                             .projected = copies.Activations(p.projected),
                             .weight = copies.Of(weight),
                             .out = copies.Activations(got)});
    copies.Fetch();
    ASSERT_TRUE(
        reference_
            .GdnGatedNorm({.rows = p.gdn.batch.View().rows,
                           .shape = s,
                           .epsilon = 1e-6f,
                           .o = AsActivations(o.data()),
                           .projected = AsActivations(p.projected.data()),
                           .weight = weight.data(),
                           .out = AsActivations(want.data())})
            .ok());

    ASSERT_TRUE(status.ok()) << status;
    ExpectClose(got.span(0, used), want.span(0, used), 2 * roundoff() + 2e-6,
                "out");
    EXPECT_TRUE(std::isnan(got[got.size() - 1])) << "a spare row was written";
  }
}

}  // namespace
}  // namespace bole::testing
