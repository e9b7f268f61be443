// What a round leaves in the recurrent states, on the demo model.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/matrices.h"
#include "tests/worker_service/engine/stepped_sequence.h"
#include "tests/worker_service/eval/demo_model.h"

namespace bole::testing_support {
namespace {

constexpr int kNodes = 33;

SteppedSequence OnDemo(const GenerateOptions& options) {
  DemoModel& demo = DemoModel::Get();
  return {demo.model(), demo.backend(), options, /*temperature=*/0.8f};
}

TEST(EngineCommitTest, IsBitwiseTheRecurrenceOverThePathsOwnOperands) {
  SteppedSequence sequence = OnDemo(Tree(kNodes - 1, 1));
  sequence.Prefill(DemoModel::Get().Prompts()[0]);

  int accepted = 0;
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    std::vector<float> want = sequence.States();
    const PackedForest forest = sequence.Round();
    const std::vector<int> path = PathOf(forest, sequence.last().emitted);
    DecodeOver(sequence, path, want);

    const std::vector<float> got = sequence.States();

    ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)),
              0);
    accepted += sequence.last().accepted_drafts;
  }
  EXPECT_GT(accepted, 20);
}

// The largest difference of any layer, relative to the layer's largest value.
double Distance(const std::vector<float>& a, const std::vector<float>& b,
                int num_layers) {
  const size_t size = a.size() / num_layers;
  double worst = 0;
  for (size_t layer = 0; layer < a.size(); layer += size) {
    double largest = 0;
    double difference = 0;
    for (size_t i = layer; i < layer + size; ++i) {
      largest = std::max(largest, std::abs(double{b[i]}));
      difference =
          testing::LargerError(difference, std::abs(double{a[i]} - b[i]));
    }
    worst = testing::LargerError(worst, difference / largest);
  }
  return worst;
}

// The path's operands come through layers whose outputs the closed form rounds
// differently from the recurrence; the gated recurrence forgets that.
TEST(EngineCommitTest, StatesDoNotDriftFromPlainDecoding) {
  constexpr int kRounds = 200;
  const std::vector<int32_t> prompt = DemoModel::Get().Prompts()[0];
  SteppedSequence speculative = OnDemo(Tree(kNodes - 1, 1));
  SteppedSequence plain = OnDemo(Off(1));
  speculative.Prefill(prompt);
  plain.Prefill(prompt);

  std::vector<double> distance;
  int32_t root = speculative.pending();
  for (int round = 0; round < kRounds; ++round) {
    speculative.Round();
    for (const EmittedToken& token : speculative.last().emitted) {
      plain.Feed(std::exchange(root, token.token));
    }
    distance.push_back(
        Distance(speculative.States(), plain.States(), plain.num_layers()));
  }

  const auto middle = distance.begin() + kRounds / 2;
  const double first_half = *std::max_element(distance.begin(), middle);
  const double second_half = *std::max_element(middle, distance.end());
  RecordProperty("first_half", std::to_string(first_half));
  RecordProperty("second_half", std::to_string(second_half));
  EXPECT_LE(std::max(first_half, second_half), 1e-5);
  // Both halves have errors of one size: a drift that grew with the rounds
  // would double.
  EXPECT_LE(second_half, 2 * first_half);
}

}  // namespace
}  // namespace bole::testing_support
