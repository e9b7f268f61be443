// Mixtures of experts with random rows and weights.
#ifndef BOLE_TESTS_KERNELS_CUDA_MOE_MOE_PROBLEM_H_
#define BOLE_TESTS_KERNELS_CUDA_MOE_MOE_PROBLEM_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/dense.h"
#include "kernels/weight_store.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {

inline constexpr int kSpareRows = 2;

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
  int capacity;  // There is room for so many rows.
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

inline ::testing::Message Text(const MoeSizes& s) {
  return ::testing::Message()
         << s.num_rows << " rows of " << s.hidden << ", " << s.experts_per_token
         << " of " << s.num_experts << " experts of " << s.width
         << ", shared one of " << s.shared_width;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_MOE_MOE_PROBLEM_H_
