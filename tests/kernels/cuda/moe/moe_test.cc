// Mixtures of experts on the GPU.
#include "kernels/cuda/moe/moe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "cuda_runtime_api.h"
#include "gtest/gtest.h"
#include "kernels/dense.h"
#include "kernels/generate.h"
#include "kernels/weight_store.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr int kSpareRows = 2;
constexpr int kMostFewRows = 64;

struct MoeSizes {
  int num_rows;
  int hidden;
  int num_experts;
  int experts_per_token;
  int width;
  int shared_width;
};

// Multiples of 1/8 up to 2.
std::vector<float> Eighths(std::mt19937& rng, size_t size) {
  std::vector<float> x(size);
  for (float& value : x) {
    value = static_cast<float>(UniformInt(rng, -16, 16)) / 8;
  }
  return x;
}

// Weights that keep the size of what they multiply, bfloat16.
std::vector<float> RandomWeights(std::mt19937& rng, int rows, int columns) {
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

Ffn RandomFfn(std::mt19937& rng, int hidden, int width) {
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

double Rms(std::span<const float> x) {
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

::testing::Message Text(const MoeSizes& s) {
  return ::testing::Message()
         << s.num_rows << " rows of " << s.hidden << ", " << s.experts_per_token
         << " of " << s.num_experts << " experts of " << s.width
         << ", shared one of " << s.shared_width;
}

MoeSizes RandomSizes(std::mt19937& rng) {
  const int num_experts = UniformInt(rng, 1, 70);
  return {.num_rows = UniformInt(rng, 0, 30),
          .hidden = UniformInt(rng, 1, 80),
          .num_experts = num_experts,
          .experts_per_token = UniformInt(rng, 1, std::min(num_experts, 12)),
          .width = UniformInt(rng, 1, 50),
          .shared_width = UniformInt(rng, 1, 50)};
}

// Those that are streamed.
MoeSizes RandomStreamedSizes(std::mt19937& rng) {
  const int num_experts = UniformInt(rng, 1, 12);
  return {.num_rows = UniformInt(rng, 0, 1) == 0 ? UniformInt(rng, 0, 8)
                                                 : UniformInt(rng, 9, 62),
          .hidden = 256 * UniformInt(rng, 1, 4),
          .num_experts = num_experts,
          .experts_per_token = UniformInt(rng, 1, num_experts),
          .width = 256 * UniformInt(rng, 1, 2),
          .shared_width = 256 * UniformInt(rng, 1, 3)};
}

BOLE_FOR_EACH_ELEMENT(MoeTest);

TEST_P(MoeTest, IsTheReferenceOnRandomSizes) {
  for (int round = 0; round < 15; round += EveryNth(3)) {
    const MoeSizes sizes = RandomSizes(rng_);
    SCOPED_TRACE(::testing::Message()
                 << "round " << round << ": " << Text(sizes));
    MoeProblem p(rng_, sizes);

    ExpectIsTheReference(p);
  }
}

TEST_P(MoeTest, IsTheReferenceOnRandomStreamedSizes) {
  for (int round = 0; round < 9; round += EveryNth(3)) {
    const MoeSizes sizes = RandomStreamedSizes(rng_);
    SCOPED_TRACE(::testing::Message()
                 << "round " << round << ": " << Text(sizes));
    MoeProblem p(rng_, sizes);

    ExpectIsTheReference(p);
  }
}

// Also with experts that every row chose, and that one row chose.
TEST_P(MoeTest, IsTheReferenceOnSizesOfModels) {
  constexpr MoeSizes kSizes[] = {{.num_rows = 1,
                                  .hidden = 512,
                                  .num_experts = 256,
                                  .experts_per_token = 8,
                                  .width = 64,
                                  .shared_width = 64},
                                 {.num_rows = 1,
                                  .hidden = 2048,
                                  .num_experts = 3,
                                  .experts_per_token = 2,
                                  .width = 512,
                                  .shared_width = 512},
                                 {.num_rows = 6,
                                  .hidden = 3072,
                                  .num_experts = 2,
                                  .experts_per_token = 1,
                                  .width = 256,
                                  .shared_width = 512},
                                 {.num_rows = 30,
                                  .hidden = 4096,
                                  .num_experts = 1,
                                  .experts_per_token = 1,
                                  .width = 256,
                                  .shared_width = 256},
                                 {.num_rows = 9,
                                  .hidden = 256,
                                  .num_experts = 70,
                                  .experts_per_token = 16,
                                  .width = 256,
                                  .shared_width = 256},
                                 {.num_rows = 100,
                                  .hidden = 256,
                                  .num_experts = 16,
                                  .experts_per_token = 16,
                                  .width = 32,
                                  .shared_width = 128},
                                 {.num_rows = 600,
                                  .hidden = 64,
                                  .num_experts = 512,
                                  .experts_per_token = 10,
                                  .width = 16,
                                  .shared_width = 8},
                                 {.num_rows = 64,
                                  .hidden = 96,
                                  .num_experts = 20,
                                  .experts_per_token = 8,
                                  .width = 32,
                                  .shared_width = 160}};
  for (const MoeSizes& sizes : kSizes) {
    SCOPED_TRACE(Text(sizes));
    MoeProblem p(rng_, sizes);

    ExpectIsTheReference(p);
  }
}

// What was there before is not read: it is NaN. For plain kernels, for tensor
// cores, and streamed.
TEST_P(MoeTest, WritesWithoutReading) {
  constexpr MoeSizes kSizes[] = {{.num_rows = 5,
                                  .hidden = 40,
                                  .num_experts = 7,
                                  .experts_per_token = 2,
                                  .width = 12,
                                  .shared_width = 20},
                                 {.num_rows = 12,
                                  .hidden = 96,
                                  .num_experts = 20,
                                  .experts_per_token = 8,
                                  .width = 32,
                                  .shared_width = 64},
                                 {.num_rows = 12,
                                  .hidden = 256,
                                  .num_experts = 10,
                                  .experts_per_token = 8,
                                  .width = 256,
                                  .shared_width = 512}};
  for (const MoeSizes& sizes : kSizes) {
    SCOPED_TRACE(Text(sizes));
    MoeProblem p(rng_, sizes);
    p.accumulate = false;
    std::ranges::fill(p.out.span(0, p.used()), NAN);

    ExpectIsTheReference(p);
  }
}

TEST_P(MoeTest, TiesGoToTheLowerExpertAndTheRestIsNotRead) {
  constexpr MoeSizes kSizes[] = {{.num_rows = 20,
                                  .hidden = 40,
                                  .num_experts = 50,
                                  .experts_per_token = 5,
                                  .width = 12,
                                  .shared_width = 20},
                                 {.num_rows = 20,
                                  .hidden = 256,
                                  .num_experts = 50,
                                  .experts_per_token = 5,
                                  .width = 256,
                                  .shared_width = 256}};
  for (const MoeSizes& sizes : kSizes) {
    SCOPED_TRACE(Text(sizes));
    MoeProblem p(rng_, sizes);
    std::ranges::fill(p.router, 0.5f);
    for (int e = 5; e < 50; ++e) std::ranges::fill(p.experts[e].down, NAN);

    ExpectIsTheReference(p);
  }
}

TEST_P(MoeTest, ARowHasTheBitsItHasAlone) {
  constexpr MoeSizes kSizes[] = {{.num_rows = 40,
                                  .hidden = 70,
                                  .num_experts = 9,
                                  .experts_per_token = 3,
                                  .width = 33,
                                  .shared_width = 20},
                                 {.num_rows = 62,
                                  .hidden = 512,
                                  .num_experts = 9,
                                  .experts_per_token = 3,
                                  .width = 256,
                                  .shared_width = 256},
                                 {.num_rows = 70,
                                  .hidden = 288,
                                  .num_experts = 9,
                                  .experts_per_token = 3,
                                  .width = 96,
                                  .shared_width = 32}};
  for (const MoeSizes& sizes : kSizes) {
    SCOPED_TRACE(Text(sizes));
    MoeProblem batch(rng_, sizes);
    const LoadedMoe weights(*cuda_, batch);
    const MoeProblem given = Run(weights, batch);

    for (int row = 0; row < sizes.num_rows; row += 7 * EveryNth(3)) {
      MoeProblem alone = given;
      alone.sizes.num_rows = 1;
      alone.count[0] = 1;
      // Other kernels, with sums in another order, compute many rows.
      if (batch.capacity <= kMostFewRows) alone.capacity = 1 + kSpareRows;
      const size_t first = static_cast<size_t>(row) * sizes.hidden;
      std::ranges::copy(given.x.span(first, sizes.hidden), alone.x.data());
      std::ranges::copy(given.out.span(first, sizes.hidden), alone.out.data());
      Run(weights, alone);

      EXPECT_TRUE(SameBits(alone.OutRow(0), batch.OutRow(row)))
          << "row " << row;
    }
  }
}

// Of a model's size, where the choice of the capacity decides what computes it.
TEST_P(MoeTest, ManyExpertsAreTheSameAtEveryCapacity) {
  if (is_float()) GTEST_SKIP() << "nothing is streamed";
  constexpr int kHidden = 2048;
  constexpr int kWidth = 512;
  constexpr int kExperts = 256;
  uint32_t stream = 0;
  const auto matrix = [&](int rows, int columns) {
    const float deviation = 1 / std::sqrt(static_cast<float>(columns));
    return *cuda_->GenerateMatrix(
        {.pattern = MatrixPattern::kRandom,
         .rows = rows,
         .columns = columns,
         .seed = 1,
         .stream = stream++,
         .num_blocks = 1,
         .blocks = {
             {.end = rows, .deviation = deviation, .shift = 0, .gain = 0}}});
  };
  MoeParams params = {.rows = {},
                      .experts_per_token = 8,
                      .x = nullptr,
                      .router = matrix(kExperts, kHidden),
                      .gate_up = {},
                      .down = {},
                      .shared_gate = matrix(1, kHidden),
                      .shared_gate_up = matrix(2 * kWidth, kHidden),
                      .shared_down = matrix(kHidden, kWidth),
                      .out = nullptr,
                      .accumulate = false};
  std::vector<const WeightMatrix*> gate_ups;
  std::vector<const WeightMatrix*> downs;
  for (int e = 0; e < kExperts; ++e) {
    gate_ups.push_back(matrix(2 * kWidth, kHidden));
    downs.push_back(matrix(kHidden, kWidth));
  }
  params.gate_up = gate_ups;
  params.down = downs;
  constexpr int kMany = 100;
  for (const int num_rows : {1, 2, 8, 9, 16, 17, 33, 64}) {
    SCOPED_TRACE(::testing::Message() << num_rows << " rows");
    GuardedBuffer<int32_t> count(1);
    GuardedBuffer<float> x(size_t{kMany} * kHidden);
    GuardedBuffer<float> few(x.size());
    GuardedBuffer<float> many(x.size());
    count[0] = num_rows;
    FillNormal(rng_, 1, x.span(0, static_cast<size_t>(num_rows) * kHidden));
    DeviceCopies copies(*cuda_);
    params.x = copies.Activations(x);
    params.out = copies.Activations(few);
    params.rows = {.count = copies.Of(count), .max = num_rows};
    ASSERT_TRUE(cuda_->Moe(params).ok());
    params.out = copies.Activations(many);
    params.rows.max = kMany;
    ASSERT_TRUE(cuda_->Moe(params).ok());
    copies.Fetch();

    for (int row = 0; row < num_rows; ++row) {
      const size_t first = static_cast<size_t>(row) * kHidden;
      EXPECT_LT(
          RelativeRmsError(few.span(first, kHidden), many.span(first, kHidden)),
          2 * roundoff())
          << "row " << row;
    }
  }
}

TEST_P(MoeTest, AllocatesNothingWithinACapture) {
  MoeProblem p(rng_, {.num_rows = 3,
                      .hidden = 40,
                      .num_experts = 4,
                      .experts_per_token = 2,
                      .width = 8,
                      .shared_width = 8});
  const LoadedMoe known(*cuda_, p);
  const LoadedMoe unknown(*cuda_, p);
  Run(known, p);
  MoeParams params = known.Params(2);
  params.rows.max = p.sizes.num_rows;

  ASSERT_EQ(
      cudaStreamBeginCapture(cuda_->stream(), cudaStreamCaptureModeThreadLocal),
      cudaSuccess);
  const absl::Status fits = cuda_->Moe(params);
  params = unknown.Params(2);
  params.rows.max = p.sizes.num_rows;
  const absl::Status other_experts = cuda_->Moe(params);
  params = known.Params(2);
  params.rows.max = 1000;
  const absl::Status more_rows = cuda_->Moe(params);
  cudaGraph_t graph = nullptr;
  const cudaError_t end = cudaStreamEndCapture(cuda_->stream(), &graph);

  EXPECT_EQ(end, cudaSuccess) << cudaGetErrorString(end);
  EXPECT_TRUE(fits.ok()) << fits;
  EXPECT_EQ(other_experts.code(), absl::StatusCode::kFailedPrecondition)
      << other_experts;
  EXPECT_EQ(more_rows.code(), absl::StatusCode::kFailedPrecondition)
      << more_rows;
  if (graph != nullptr) cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace bole::testing
