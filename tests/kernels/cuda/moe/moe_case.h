// Mixtures of experts for tests on the GPU, and what is held against the
// reference.
#ifndef BOLE_TESTS_KERNELS_CUDA_MOE_MOE_CASE_H_
#define BOLE_TESTS_KERNELS_CUDA_MOE_MOE_CASE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/dense.h"
#include "kernels/weight_store.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {

inline constexpr int kSpareRows = 2;
inline constexpr int kMostFewRows = 128;

struct MoeSizes {
  int num_rows;
  int hidden;
  int num_experts;
  int experts_per_token;
  int width;
  int shared_width;
};

// Multiples of 1/8 up to 2.
inline std::vector<float> Eighths(std::mt19937& rng, size_t size) {
  std::vector<float> x(size);
  for (float& value : x) {
    value = static_cast<float>(UniformInt(rng, -16, 16)) / 8;
  }
  return x;
}

// Weights that keep the size of what they multiply, bfloat16.
inline std::vector<float> RandomWeights(std::mt19937& rng, int rows,
                                        int columns) {
  std::vector<float> w =
      NormalVector(rng, static_cast<size_t>(rows) * columns,
                   1 / std::sqrt(static_cast<float>(columns)));
  for (float& value : w) value = RoundedToBFloat16(value);
  return w;
}

struct Ffn {
  std::vector<float> gate_up;  // [2 m, H]
  std::vector<float> down;     // [H, m]
};

inline Ffn RandomFfn(std::mt19937& rng, int hidden, int width) {
  return {RandomWeights(rng, 2 * width, hidden),
          RandomWeights(rng, hidden, width)};
}

// The rows and the router are multiples of a power of two, few enough that
// logits have no rounding error in float32, whatever the order of their sums.
// So every backend chooses the same experts, and ties happen.
//
// Spare rows are NaN.
struct MoeProblem {
  MoeProblem(std::mt19937& rng, const MoeSizes& of)
      : sizes(of),
        capacity(of.num_rows + kSpareRows),
        router(Eighths(rng, static_cast<size_t>(of.num_experts) * of.hidden)),
        shared_gate(RandomWeights(rng, 1, of.hidden)),
        shared(RandomFfn(rng, of.hidden, of.shared_width)),
        count(1),
        x(static_cast<size_t>(of.num_rows + kSpareRows) * of.hidden),
        out(x.size()) {
    const float scale =
        std::exp2(-std::round(std::log2(std::sqrt(float(of.hidden)))));
    for (float& value : router) value *= scale;
    experts.reserve(of.num_experts);
    for (int e = 0; e < of.num_experts; ++e) {
      experts.push_back(RandomFfn(rng, of.hidden, of.width));
    }
    count[0] = of.num_rows;
    std::ranges::copy(Eighths(rng, used()), x.data());
    FillNormal(rng, 1, out.span(0, used()));
  }

  size_t used() const {
    return static_cast<size_t>(sizes.num_rows) * sizes.hidden;
  }
  std::span<const float> OutRow(int row) const {
    return out.span(static_cast<size_t>(row) * sizes.hidden, sizes.hidden);
  }

  MoeSizes sizes;
  int capacity;
  std::vector<float> router, shared_gate;
  Ffn shared;
  std::vector<Ffn> experts;
  GuardedBuffer<int32_t> count;
  GuardedBuffer<float> x, out;
  bool accumulate = true;
};

// The weights as a store has them.
struct LoadedMoe {
  LoadedMoe(WeightStore& store, const MoeProblem& p)
      : router(LoadRows(store, p.sizes.num_experts, p.sizes.hidden, p.router)),
        shared_gate(LoadRows(store, 1, p.sizes.hidden, p.shared_gate)) {
    const auto load = [&](const Ffn& ffn, int width) {
      gate_up.push_back(
          LoadRows(store, 2 * width, p.sizes.hidden, ffn.gate_up));
      down.push_back(LoadRows(store, p.sizes.hidden, width, ffn.down));
    };
    for (const Ffn& expert : p.experts) load(expert, p.sizes.width);
    load(p.shared, p.sizes.shared_width);
  }

  MoeParams Params(int experts_per_token) const {
    const std::span gates(gate_up);
    const std::span downs(down);
    return {.rows = {},
            .experts_per_token = experts_per_token,
            .x = nullptr,
            .router = router,
            .gate_up = gates.first(gates.size() - 1),
            .down = downs.first(downs.size() - 1),
            .shared_gate = shared_gate,
            .shared_gate_up = gates.back(),
            .shared_down = downs.back(),
            .out = nullptr};
  }

  const WeightMatrix* router;
  const WeightMatrix* shared_gate;
  std::vector<const WeightMatrix*> gate_up, down;  // The shared one is last.
};

inline double Rms(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

class MoeTest : public CudaTest {
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

inline ::testing::Message Text(const MoeSizes& s) {
  return ::testing::Message()
         << s.num_rows << " rows of " << s.hidden << ", " << s.experts_per_token
         << " of " << s.num_experts << " experts of " << s.width
         << ", shared one of " << s.shared_width;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_MOE_MOE_CASE_H_
