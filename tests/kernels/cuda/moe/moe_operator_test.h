// Mixtures of experts on the GPU, held against the reference.
#ifndef BOLE_TESTS_KERNELS_CUDA_MOE_MOE_OPERATOR_TEST_H_
#define BOLE_TESTS_KERNELS_CUDA_MOE_MOE_OPERATOR_TEST_H_

#include <cmath>
#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/dense.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/moe/moe_problem.h"
#include "tests/testing/activations.h"
#include "tests/testing/matrices.h"

namespace bole::testing {

inline double Rms(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

class MoeOperatorTest : public CudaTest {
 protected:
  // On the GPU. Returns what the GPU was given.
  MoeProblem Run(const LoadedMoe& weights, MoeProblem& p) {
    DeviceCopies copies(*cuda_);
    MoeParams params = weights.Params(p.sizes.experts_per_token);
    params.accumulate = p.accumulate;
    params.rows = {.count = copies.Of(p.count), .max = p.capacity};
    params.x = copies.Activations(p.x);
    params.out = copies.Activations(p.out);
    MoeProblem given = p;
    const absl::Status status = cuda_->Moe(params);
    EXPECT_TRUE(status.ok()) << status;
    copies.Fetch();
    return given;
  }

  void RunReference(MoeProblem& p) {
    const LoadedMoe weights(reference_, p);
    MoeParams params = weights.Params(p.sizes.experts_per_token);
    params.accumulate = p.accumulate;
    params.rows = {.count = p.count.data(), .max = p.capacity};
    params.x = AsActivations(p.x.data());
    params.out = AsActivations(p.out.data());
    ASSERT_TRUE(reference_.Moe(params).ok());
  }

  void ExpectIsTheReference(MoeProblem& p) {
    const LoadedMoe weights(*cuda_, p);
    MoeProblem want = Run(weights, p);
    RunReference(want);
    // Partial sums of terms of either sign grow like a random walk, and each
    // rounds by up to a roundoff of its size: the error of a sum of n terms is
    // about sqrt(n) roundoffs of what is summed, which is about 1 and the row
    // itself. Three sums follow each other, on both sides; 16 leaves room. Then
    // the output is rounded to what is stored.
    const int terms = p.sizes.hidden + p.sizes.width + p.sizes.shared_width +
                      p.sizes.experts_per_token;
    const double arithmetic = 16 * std::sqrt(terms) * kFloatRoundoff;
    for (int row = 0; row < p.sizes.num_rows; ++row) {
      const double size = Rms(want.OutRow(row));
      const double tolerance = arithmetic * (1 + size) + roundoff() * size;
      const double error =
          RelativeRmsError(p.OutRow(row), want.OutRow(row)) * size;
      EXPECT_TRUE(error <= tolerance)
          << "row " << row << ": " << error << ", at most " << tolerance
          << "; first element " << p.OutRow(row)[0] << ", expected "
          << want.OutRow(row)[0];
    }
    const size_t spare = p.out.size() - p.used();
    EXPECT_TRUE(
        SameBits(p.out.span(p.used(), spare), want.out.span(p.used(), spare)))
        << "a spare row was written";
  }
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_MOE_MOE_OPERATOR_TEST_H_
