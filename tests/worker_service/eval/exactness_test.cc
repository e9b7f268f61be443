// Speculation is invisible: one seed and one prompt give one text, whatever was
// proposed and whoever was in the batch.
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/exhaustive.h"
#include "tests/worker_service/eval/demo_model.h"

namespace bole::testing_support {
namespace {

// Closed form and recurrence round differently; the layers above pass it on.
constexpr float kLogprobTolerance = 1e-4f;

// Seed 0 is greedy, the others draw. Each seed takes a quarter of the prompts,
// another one than the seed before; in an exhaustive run the first seeds take
// every prompt.
constexpr int kSeedsWithAllPrompts = 2;
constexpr size_t kQuarters = 4;

int NumSeeds() { return testing::Exhaustive() ? 11 : 3; }

std::vector<GenerateRequest> Requests(int seed) {
  DemoModel& demo = DemoModel::Get();
  const std::vector<std::vector<int32_t>> prompts = demo.Prompts();
  const bool takes_all = testing::Exhaustive() && seed < kSeedsWithAllPrompts;
  std::vector<GenerateRequest> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (!takes_all && i % kQuarters != seed % kQuarters) continue;
    GenerateRequest request{.prompt = prompts[i],
                            .sampling = {},
                            .stop_tokens = demo.model().stop_tokens};
    request.sampling.temperature = seed == 0 ? 0.0f : 0.8f;
    request.sampling.top_p = 0.95f;
    request.sampling.seed = seed;
    request.sampling.max_tokens = seed == 0 ? 80 : 48;
    requests.push_back(request);
  }
  return requests;
}

void ExpectSameText(const GenerateResult& got, const GenerateResult& want) {
  ASSERT_EQ(Tokens(got), Tokens(want));
  for (size_t i = 0; i < want.output.size(); ++i) {
    EXPECT_NEAR(got.output[i].logprob, want.output[i].logprob,
                kLogprobTolerance)
        << "token " << i;
  }
}

// To the last bit: EmittedToken compares log probabilities as floats.
void ExpectSameBits(const GenerateResult& got, const GenerateResult& want) {
  EXPECT_TRUE(got.output == want.output);
  EXPECT_EQ(got.rounds, want.rounds);
  EXPECT_EQ(got.accepted_drafts, want.accepted_drafts);
}

class ExactnessTest : public ::testing::TestWithParam<int> {};

TEST_P(ExactnessTest, TextDependsNeitherOnSpeculationNorOnTheBatch) {
  DemoModel& demo = DemoModel::Get();
  const std::vector<GenerateRequest> requests = Requests(GetParam());

  const std::vector<GenerateResult> plain = demo.Run(Off(1), requests);
  const std::vector<GenerateResult> chain = demo.Run(Chain(3, 1), requests);
  const std::vector<GenerateResult> tree = demo.Run(Tree(32, 1), requests);
  const std::vector<GenerateResult> plain8 = demo.Run(Off(8), requests);
  const std::vector<GenerateResult> chain8 = demo.Run(Chain(3, 8), requests);
  const std::vector<GenerateResult> tree8 = demo.Run(Tree(32, 8), requests);

  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectSameText(chain[i], plain[i]);
    ExpectSameText(tree[i], plain[i]);
    ExpectSameBits(plain8[i], plain[i]);
    ExpectSameBits(chain8[i], chain[i]);
    ExpectSameBits(tree8[i], tree[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExactnessTest, ::testing::Range(0, NumSeeds()));

}  // namespace
}  // namespace bole::testing_support
