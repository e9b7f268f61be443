// What tests of attention on the GPU share.
#ifndef BOLE_TESTS_KERNELS_CUDA_ATTENTION_ATTEND_TEST_H_
#define BOLE_TESTS_KERNELS_CUDA_ATTENTION_ATTEND_TEST_H_

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
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {

inline constexpr int kLayer = 1;

inline double Norm(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

class AttendTest : public CudaTest {
 protected:
  // Keys begin at KV index 0, or at 1 behind NaN.
  AttentionProblem MakeProblem(const AttentionShape& shape, int page_size,
                               HostBatch batch) {
    return MakeProblem(shape, page_size, std::move(batch),
                       UniformInt(rng_, 0, 1));
  }
  AttentionProblem MakeProblem(const AttentionShape& shape, int page_size,
                               HostBatch batch, int first_key) {
    AttentionProblem p(
        rng_, {.shape = shape, .page_size = page_size, .first_key = first_key},
        std::move(batch));
    p.FillInputs(rng_, kLayer);
    return p;
  }
  AttentionProblem MakeProblem(const AttentionShape& shape, int page_size,
                               int max_committed) {
    return MakeProblem(shape, page_size, RandomBatch(rng_, max_committed));
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

  // Compares `got`, the GPU's result, with `want`, on which the reference has
  // run.
  void ExpectIsTheReference(AttentionProblem& got, AttentionProblem& want) {
    ExpectNear(got, want, /*times=*/1);
    const size_t used = want.used_out();
    EXPECT_TRUE(SameBits(got.out.span(used, got.out.size() - used),
                         want.out.span(used, want.out.size() - used)))
        << "a spare row was written";
    EXPECT_TRUE(SameBits(got.k.all(), want.k.all()));
    EXPECT_TRUE(SameBits(got.v.all(), want.v.all()));
  }

  // Within so many times the error that the GPU may make.
  void ExpectNear(AttentionProblem& got, AttentionProblem& want, double times) {
    for (int b = 0; b < want.batch.num_requests(); ++b) {
      const int first = want.batch.first_row[b];
      const int last = want.batch.first_row[b + 1];
      for (int head = 0; head < want.shape.kv_heads && first < last; ++head) {
        const Sizes sizes = SizesOf(want, b, head);
        for (int row = first; row < last; ++row) {
          ExpectGroup(got, want, row, head, sizes, times);
          if (HasFatalFailure()) return;
        }
      }
    }
  }

 private:
  // The sizes of what a request's rows see in one KV head.
  struct Sizes {
    double key_norm = 0;
    double largest_value = 0;
  };

  static Sizes SizesOf(AttentionProblem& p, int request, int head) {
    Sizes sizes;
    for (int row = p.batch.first_row[request];
         row < p.batch.first_row[request + 1]; ++row) {
      // The rows share their prefix.
      std::vector<int> visible = p.Visible(row);
      if (row > p.batch.first_row[request]) {
        visible.erase(visible.begin(),
                      visible.begin() + p.batch.committed[request]);
      }
      for (const int index : visible) {
        sizes.key_norm =
            std::max(sizes.key_norm, Norm(p.Key(kLayer, request, index, head)));
        for (const float v : p.Value(kLayer, request, index, head)) {
          sizes.largest_value =
              std::max(sizes.largest_value, std::abs(double{v}));
        }
      }
    }
    return sizes;
  }

  // The query heads of one row and KV head.
  void ExpectGroup(AttentionProblem& got, AttentionProblem& want, int row,
                   int kv_head, const Sizes& sizes, double times) {
    const int group = want.shape.query_heads / want.shape.kv_heads;
    const auto visible = static_cast<double>(want.Visible(row).size());
    for (int i = 0; i < group; ++i) {
      const int head = kv_head * group + i;
      SCOPED_TRACE(::testing::Message() << "row " << row << ", head " << head);
      const double error =
          Error(want.shape.head_dim,
                Norm(want.Query(row, head)) * sizes.key_norm, visible) *
          sizes.largest_value;
      ExpectHead(got.Out(row, head), want.Out(row, head), times, error);
      if (HasFatalFailure()) return;
    }
  }

  // The error of a mean of values of at most 1 that are visible, for a query
  // and keys with products of at most `product`.
  double Error(int dim, double product, double visible) const {
    // No score is beyond this, nor the sum of the magnitudes in it.
    const double score = product / std::sqrt(dim);
    // A weight's relative error: a score's hd products and sums and its
    // scaling, which count in its own exponential and in the sum of all; the
    // differences of scores, at most twice the largest, that are rescaled by on
    // the way; exponentials and sums of every token and warp; the gate. On both
    // sides, and twice as much on one, as tensor cores cut off where others
    // round.
    const double roundoffs =
        2.01 * (dim + 3) * score + 4 * score + 8.0 * visible + 40;
    const double arithmetic = 3 * roundoffs * kFloatRoundoff;
    // Tensor cores are given weights rounded to bfloat16, and the weights sum
    // to 1.
    return is_float() ? arithmetic : arithmetic + roundoff();
  }

  void ExpectHead(std::span<const float> got, std::span<const float> want,
                  double times, double error) const {
    for (size_t c = 0; c < want.size(); ++c) {
      const double expected = want[c];
      // The output is rounded once to what is stored.
      const double tolerance =
          times * (error + roundoff() * (std::abs(expected) + error));
      ASSERT_TRUE(std::abs(got[c] - expected) <= tolerance)
          << "column " << c << ": " << got[c] << ", expected " << expected
          << " +- " << tolerance;
    }
  }
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_ATTENTION_ATTEND_TEST_H_
