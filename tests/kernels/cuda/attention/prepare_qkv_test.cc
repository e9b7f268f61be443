// Norm, rotation and KV writes on the GPU.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/cuda/attention/device_pages.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/qkv_problem.h"
#include "tests/testing/activations.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr int kLayer = 1;

// The gates are NaN: they are not read.
QkvProblem MakeProblem(std::mt19937& rng, const AttentionShape& shape,
                       HostBatch batch) {
  return QkvProblem(rng,
                    AttentionProblem(rng,
                                     {.shape = shape,
                                      .page_size = UniformInt(rng, 1, 64),
                                      .first_key = UniformInt(rng, 0, 1),
                                      .with_prefix = false},
                                     std::move(batch)),
                    InverseFrequencies(shape));
}

class PrepareQkvTest : public CudaTest {
 protected:
  // On the GPU. Returns what the GPU was given.
  QkvProblem PrepareQkv(QkvProblem& qkv) {
    DeviceCopies copies(*cuda_);
    const QkvParams params = DeviceQkv(copies, qkv, kLayer);
    QkvProblem given = qkv;
    const absl::Status status = cuda_->PrepareQkv(params);
    EXPECT_TRUE(status.ok()) << status;
    copies.Fetch();
    return given;
  }

  void ExpectIsTheReference(QkvProblem& qkv) {
    SCOPED_TRACE(::testing::Message() << qkv.p);
    QkvProblem want = PrepareQkv(qkv);
    ASSERT_TRUE(reference_.PrepareQkv(want.Params(kLayer)).ok());
    for (int row = 0; row < want.p.batch.num_rows(); ++row) {
      SCOPED_TRACE(::testing::Message() << "row " << row);
      ExpectRow(qkv, want, row);
      if (HasFatalFailure()) return;
    }
    // All else, now that the rows' own keys are taken over: nothing was written
    // to it.
    const size_t used = want.p.used_out();
    const size_t spare = want.p.q.size() - used;
    EXPECT_TRUE(
        SameBits(qkv.p.q.span(used, spare), want.p.q.span(used, spare)));
    EXPECT_TRUE(SameBits(qkv.p.k.all(), want.p.k.all()));
    EXPECT_TRUE(SameBits(qkv.p.v.all(), want.p.v.all()));
  }

 private:
  // One row's q, k and v, and then takes over its k into `want`.
  void ExpectRow(QkvProblem& got, QkvProblem& want, int row) {
    const int request = want.p.batch.request[row];
    const int index = want.Index(row);
    for (int head = 0; head < want.p.shape.query_heads; ++head) {
      ExpectHead(got.p.Query(row, head), want.p.Query(row, head), want);
    }
    for (int head = 0; head < want.p.shape.kv_heads; ++head) {
      const auto key = got.p.Key(kLayer, request, index, head);
      const auto want_key = want.p.Key(kLayer, request, index, head);
      ExpectHead(key, want_key, want);
      std::ranges::copy(key, want_key.begin());
      EXPECT_TRUE(SameBits(got.p.Value(kLayer, request, index, head),
                           want.p.Value(kLayer, request, index, head)));
    }
  }

  void ExpectHead(std::span<const float> got, std::span<const float> want,
                  const QkvProblem& qkv) {
    const int dim = qkv.p.shape.head_dim;
    const int half = qkv.p.shape.rotary_dim / 2;
    // The root of hd squares of one sign, six more roundings of the norm, sine
    // and cosine within two units (four halves), five of the rotation; on both
    // sides. They are relative to both elements of a pair before the rotation,
    // which leaves the root of the sum of their squares.
    const double relative = 2 * (dim / 2.0 + 6 + 4 + 5) * kFloatRoundoff;
    for (int c = 0; c < dim; ++c) {
      double size = std::abs(double{want[c]});
      if (c < 2 * half) {
        size = std::sqrt(2.0) *
               std::hypot(want[c], want[c < half ? c + half : c - half]);
      }
      const double arithmetic = relative * size;
      // Rounded once to what is stored.
      const double tolerance =
          arithmetic + roundoff() * (std::abs(double{want[c]}) + arithmetic);
      ASSERT_TRUE(std::abs(double{got[c]} - want[c]) <= tolerance)
          << "column " << c << ": " << got[c] << ", expected " << want[c]
          << " +- " << tolerance;
    }
  }
};

BOLE_FOR_EACH_ELEMENT(PrepareQkvTest);

// Positions up to 300000, where sine and cosine need their slow reduction.
TEST_P(PrepareQkvTest, IsTheReferenceOnRandomShapes) {
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const int max_committed = round % 2 == 0 ? 10 : 300000;
    QkvProblem qkv =
        MakeProblem(rng_, RandomShape(rng_), RandomBatch(rng_, max_committed));

    ExpectIsTheReference(qkv);
  }
}

TEST_P(PrepareQkvTest, IsTheReferenceOnNotedShapes) {
  for (const AttentionShape& shape : NotedShapes()) {
    QkvProblem qkv = MakeProblem(rng_, shape, RandomBatch(rng_, 5000));

    ExpectIsTheReference(qkv);
  }
}

TEST_P(PrepareQkvTest, ARowHasTheBitsItHasAlone) {
  const AttentionShape shape = {
      .query_heads = 6, .kv_heads = 2, .head_dim = 70, .rotary_dim = 20};
  QkvProblem batch = MakeProblem(rng_, shape, RandomBatch(rng_, 30));
  QkvProblem row_by_row = batch;
  PrepareQkv(batch);

  for (int row = 0; row < batch.p.batch.num_rows(); row += 5) {
    QkvProblem alone = row_by_row;
    alone.p.batch = OnlyRow(batch.p.batch, row);
    std::ranges::copy(row_by_row.p.projected.span(
                          static_cast<size_t>(row) * shape.projected_width(),
                          shape.projected_width()),
                      alone.p.projected.data());
    PrepareQkv(alone);

    const size_t width = shape.query_width();
    EXPECT_TRUE(
        SameBits(alone.p.q.span(0, width), batch.p.q.span(row * width, width)))
        << "row " << row;
  }
}

}  // namespace
}  // namespace bole::testing
