// Against the torch reference: what greedy decoding says, and how much of it
// the drafter foresees.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/exhaustive.h"
#include "tests/worker_service/eval/demo_model.h"

namespace bole::testing_support {
namespace {

std::vector<GenerateRequest> GreedyRequests(
    const std::vector<std::vector<int32_t>>& prompts, int max_tokens,
    const std::vector<int32_t>& stop_tokens) {
  std::vector<GenerateRequest> requests;
  for (const std::vector<int32_t>& prompt : prompts) {
    GenerateRequest request{
        .prompt = prompt, .sampling = {}, .stop_tokens = stop_tokens};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = max_tokens;
    requests.push_back(request);
  }
  return requests;
}

// Where the reference's two best logits are closer than this, rounding may
// decide, and what follows may differ.
constexpr double kClearMargin = 1e-3;

TEST(GreedyTest, ContinuationsEqualTheReferenceUpToTheFirstNearTie) {
  DemoModel& demo = DemoModel::Get();
  const nlohmann::json golden = ReadGoldenJson("greedy.json");
  std::vector<std::vector<int32_t>> prompts;
  for (const nlohmann::json& text : golden) {
    prompts.push_back(text["prompt_ids"]);
  }

  const std::vector<GenerateResult> results =
      demo.Run(Tree(32, 8), GreedyRequests(prompts, 96, /*stop_tokens=*/{}));

  size_t num_compared = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    const std::vector<int32_t> want = golden[i]["greedy_ids"];
    const std::vector<double> margins = golden[i]["margins"];
    const size_t clear =
        std::find_if(margins.begin(), margins.end(),
                     [](double margin) { return margin <= kClearMargin; }) -
        margins.begin();
    const std::vector<int32_t> got = Tokens(results[i]);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::vector(got.begin(), got.begin() + clear),
              std::vector(want.begin(), want.begin() + clear))
        << "text " << i;
    num_compared += clear;
  }
  EXPECT_GE(num_compared, 96 * golden.size() / 2);
}

class AcceptanceTest : public ::testing::TestWithParam<int> {};

// One setting of the reference: accepted drafts + 1 per round, within 1 %.
TEST_P(AcceptanceTest, MeanAcceptedTokensEqualTheReference) {
  DemoModel& demo = DemoModel::Get();
  const nlohmann::json golden = ReadGoldenJson("mat.json");
  const nlohmann::json& setting = golden["reference"][GetParam()];
  const int draft_nodes = setting["draft_nodes"];
  const GenerateOptions options =
      setting["top_k"] == 1 ? Chain(setting["depth"], 8) : Tree(draft_nodes, 8);

  const std::vector<GenerateResult> results = demo.Run(
      options, GreedyRequests(demo.Prompts(), 80, demo.model().stop_tokens));

  int rounds = 0;
  int accepted = 0;
  size_t tokens = 0;
  for (const GenerateResult& result : results) {
    rounds += result.rounds;
    accepted += result.accepted_drafts;
    tokens += result.output.size();
  }
  const double want = setting["mat"];
  EXPECT_NEAR(1.0 + static_cast<double>(accepted) / rounds, want, 0.01 * want);
  EXPECT_EQ(tokens, golden["tokens"].get<size_t>());
}

std::string NameOf(const ::testing::TestParamInfo<int>& info) {
  const nlohmann::json setting =
      ReadGoldenJson("mat.json")["reference"][info.param];
  return (setting["top_k"] == 1 ? "chain" : "tree") +
         setting["draft_nodes"].dump();
}

// All settings of the reference, or its chain of 3 and its tree of 32.
std::vector<int> Settings() {
  if (!testing::Exhaustive()) return {0, 4};
  return {0, 1, 2, 3, 4, 5, 6};
}

INSTANTIATE_TEST_SUITE_P(Settings, AcceptanceTest,
                         ::testing::ValuesIn(Settings()), NameOf);

}  // namespace
}  // namespace bole::testing_support
