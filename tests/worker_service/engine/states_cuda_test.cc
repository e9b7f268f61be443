// What rounds leave in the recurrent states on a GPU, on the demo model.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/testing/matrices.h"
#include "tests/worker_service/engine/stepped_sequence.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

constexpr int kRounds = 200;
constexpr int kNodes = 64;
// At this temperature the trees draw nearly six tokens a round, and no
// repetitions.
constexpr float kTemperature = 0.3f;

class StatesCudaTest : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (cuda_ == nullptr) return;
    model_ = Load(*cuda_);
    prompt_ = *model_.tokenizer->Encode(
        "The quick brown fox jumps over the lazy dog while seven wizards "
        "watch the river, and nobody says what the old map was for.");
  }
  void TearDown() override { model_ = {}; }

  static LoadedModel Load(Backend& backend) {
    absl::StatusOr<LoadedModel> model = LoadModel("models/demo", backend);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  // The rms of the difference over the rms of b, of the layer where it is
  // largest.
  static double Distance(const SteppedSequence& a, const SteppedSequence& b) {
    const std::vector<float> of_a = a.States();
    const std::vector<float> of_b = b.States();
    const size_t size = of_a.size() / a.num_layers();
    double worst = 0;
    for (size_t layer = 0; layer < of_a.size(); layer += size) {
      worst = testing::LargerError(
          worst,
          testing::RelativeRmsError(std::span(of_a).subspan(layer, size),
                                    std::span(of_b).subspan(layer, size)));
    }
    return worst;
  }

  static double LargestOf(const std::vector<double>& x, size_t begin,
                          size_t end) {
    return *std::max_element(x.begin() + begin, x.begin() + end);
  }

  LoadedModel model_;
  std::vector<int32_t> prompt_;
};

TEST_P(StatesCudaTest, ACommitIsBitwiseTheDecodeKernelsRecurrence) {
  SteppedSequence sequence(model_, *cuda_, Tree(kNodes - 1, 1), kTemperature);
  sequence.Prefill(prompt_);

  int committed = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    std::vector<float> want = sequence.States();
    const PackedForest forest = sequence.Round();
    DecodeOver(sequence, PathOf(forest, sequence.last().emitted), want);

    ASSERT_TRUE(testing::SameBits(sequence.States(), want));
    committed += static_cast<int>(sequence.last().emitted.size());
  }
  RecordProperty("tokens", committed);
  EXPECT_GT(committed, 2 * kRounds);
}

// The same tokens by trees and one by one. Trees and lone rows round
// differently, in products and in the closed form; what a rounding leaves in a
// state decays. So the distance between the two is that of two computations
// that are each off from exact arithmetic by its rounding: at most the sum of
// theirs, which are as large as each other. Plain decoding's own is measured
// here, against float32.
TEST_P(StatesCudaTest, DoNotDriftFromPlainDecoding) {
  auto exact_backend =
      cuda::CudaBackend::Create(/*device=*/0, ElementType::kFloat32);
  ASSERT_TRUE(exact_backend.ok()) << exact_backend.status();
  const LoadedModel exact_model = Load(**exact_backend);
  SteppedSequence trees(model_, *cuda_, Tree(kNodes - 1, 1), kTemperature);
  SteppedSequence plain(model_, *cuda_, Off(1), kTemperature);
  SteppedSequence exact(exact_model, **exact_backend, Off(1), kTemperature);
  for (SteppedSequence* sequence : {&trees, &plain, &exact}) {
    sequence->Prefill(prompt_);
  }

  std::vector<double> distance;
  std::vector<double> rounding;
  int tokens = 0;
  int32_t root = trees.pending();
  for (int round = 0; round < kRounds; ++round) {
    trees.Round();
    for (const EmittedToken& token : trees.last().emitted) {
      plain.Feed(root);
      exact.Feed(std::exchange(root, token.token));
      ++tokens;
    }
    distance.push_back(Distance(trees, plain));
    rounding.push_back(Distance(plain, exact));
  }

  const auto report = [](const std::string& name, double value) {
    std::printf("  %s: %.3g\n", name.c_str(), value);
    RecordProperty(absl::StrReplaceAll(name, {{" ", "_"}}),
                   absl::StrCat(value));
  };
  report("tokens a round", static_cast<double>(tokens) / kRounds);
  for (int end = 50; end <= kRounds; end += 50) {
    const std::string rounds = absl::StrCat("to round ", end);
    report(rounds + " from plain", LargestOf(distance, end - 50, end));
    report(rounds + " plain from float32", LargestOf(rounding, end - 50, end));
  }
  EXPECT_GT(tokens, 4 * kRounds);
  // A float32 plain decoding is off by the order of its sums alone, as on the
  // reference backend (tests/worker_service/engine/engine_commit_test.cc).
  const double bound = is_float() ? 1e-5 : 2 * LargestOf(rounding, 0, kRounds);
  EXPECT_LE(LargestOf(distance, 0, kRounds), bound);
  if (!is_float()) {
    EXPECT_LE(LargestOf(rounding, 0, kRounds), 0.05);
  }
  // The errors have one size all the way: a drift that grew with the rounds
  // would double.
  EXPECT_LE(LargestOf(distance, kRounds / 2, kRounds),
            2 * LargestOf(distance, 0, kRounds / 2));
}

BOLE_FOR_EACH_ELEMENT(StatesCudaTest);

}  // namespace
}  // namespace bole::testing_support
