#include "tests/simulation/step_runner.h"

#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace bole::simulation {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

StepRunnerOptions Options() {
  StepRunnerOptions options;
  options.engine.limits = {.max_requests = 2,
                           .max_nodes = 32,
                           .max_nodes_per_tree = 16,
                           .max_prefill_tokens = 64,
                           .max_draft = {.top_k = 2, .depth = 3},
                           .num_slots = 2,
                           .num_pages = 8,
                           .page_size = 64,
                           .max_context = 200,
                           .vocabulary = 100,
                           .max_lease_rounds = kMaxLeaseRounds};
  options.engine.text.alphabet = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  return options;
}

// A table by which every forest takes that long.
StepCosts Costs(const std::string& microseconds) {
  return *StepCosts::Parse(std::string(R"({"terms": [{"axes": [["rows", [1]]],
      "microseconds": [)") +
                           microseconds + "]}]}");
}

StepPlan Prompt() {
  StepPlan plan;
  plan.prefills.resize(1);
  plan.prefills[0].sequence.pages = {PageId(0), PageId(1)};
  plan.prefills[0].sequence.prompt_length = 3;
  plan.prefills[0].tokens = {4, 5, 6};
  return plan;
}

// A lease of lone roots after the prompt.
StepPlan Decode(int rounds, int32_t root) {
  StepPlan plan;
  SequencePlan& sequence = plan.sequences.emplace_back();
  sequence.committed = 3;
  sequence.pages = {PageId(0), PageId(1)};
  sequence.prompt_length = 3;
  sequence.max_new_tokens = 50;
  plan.forest = *BuildForest(
      std::vector<NodeList>{{.token = {root}, .parent = {kNoParent}}});
  plan.lease = {.rounds = rounds, .budget = 1, .max_nodes_per_tree = 1};
  return plan;
}

struct Round {
  Clock::time_point at;
  StepResult result;
};

std::vector<Round> RunLease(StepRunner& runner, int rounds) {
  int32_t root = 0;
  EXPECT_TRUE(runner
                  .Step(Prompt(),
                        [&](const StepResult& result) {
                          root = result.prefills[0].emitted[0].token;
                        })
                  .ok());
  std::vector<Round> all;
  EXPECT_TRUE(runner
                  .Step(Decode(rounds, root),
                        [&](StepResult result) {
                          all.push_back({Clock::now(), std::move(result)});
                        })
                  .ok());
  return all;
}

TEST(StepRunnerTest, ALeaseHasAResultForEachRound) {
  StepRunner runner(Options());
  const std::vector<Round> rounds = RunLease(runner, 4);

  ASSERT_EQ(rounds.size(), 4u);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 4; ++i) {
    const StepResult& result = rounds[i].result;
    EXPECT_EQ(result.round, i);
    EXPECT_EQ(result.is_last, i == 3);
    EXPECT_EQ(result.forest.has_value(), i > 0);
    tokens.push_back(result.sequences[0].emitted[0].token);
  }
  const std::vector<int32_t> prompt = {4, 5, 6};
  std::vector<int32_t> want =
      ExpectedOutput(Options().engine.text, prompt, {}, 5);
  want.erase(want.begin());
  EXPECT_EQ(tokens, want);
}

TEST(StepRunnerTest, RoundsOfALeaseFollowAtTheirCost) {
  StepRunnerOptions options = Options();
  options.costs = Costs("4000");
  StepRunner runner(options);
  const Clock::time_point start = Clock::now();
  const std::vector<Round> rounds = RunLease(runner, 3);

  // None is early; what one is late does not add to the next.
  for (int i = 0; i < 3; ++i) {
    EXPECT_GE(rounds[i].at - start, milliseconds(4 * (i + 1)));
  }
}

TEST(StepRunnerTest, SpeedDividesTimesAndSlownessMultipliesThem) {
  StepRunnerOptions options = Options();
  options.costs = Costs("2000000");
  options.speed = 1000;
  options.faults = {*ParseFault("slow:5@3")};  // The prompt was the first.
  StepRunner runner(options);
  const Clock::time_point start = Clock::now();
  const std::vector<Round> rounds = RunLease(runner, 2);

  EXPECT_GE(rounds[0].at - start, milliseconds(2));
  EXPECT_LT(rounds[1].at - start, milliseconds(2000));
  EXPECT_GE(rounds[1].at - start, milliseconds(12));
}

TEST(StepRunnerTest, AtSpeed0NothingWaits) {
  StepRunnerOptions options = Options();
  options.costs = Costs("3600000000");
  options.speed = 0;
  StepRunner runner(options);

  EXPECT_EQ(RunLease(runner, 3).size(), 3u);
}

TEST(StepRunnerTest, GarbageIsInItsRoundAlone) {
  StepRunnerOptions options = Options();
  options.faults = {*ParseFault("garbage=committed@3")};
  StepRunner runner(options);
  const std::vector<Round> rounds = RunLease(runner, 3);

  EXPECT_EQ(rounds[0].result.sequences[0].committed, 4);
  EXPECT_GT(rounds[1].result.sequences[0].committed, 200);
  EXPECT_EQ(rounds[2].result.sequences[0].committed, 6);
}

TEST(StepRunnerTest, ASignalSpoilsTheRoundAfterItAlone) {
  StepRunnerOptions options = Options();
  int rounds_begun = 0;
  // It comes before the third round: the prompt was the first.
  options.num_signals = [&rounds_begun] { return ++rounds_begun >= 3 ? 1 : 0; };
  options.faults = {*ParseFault("garbage=committed@signal")};
  StepRunner runner(options);
  const std::vector<Round> rounds = RunLease(runner, 3);

  EXPECT_EQ(rounds[0].result.sequences[0].committed, 4);
  EXPECT_GT(rounds[1].result.sequences[0].committed, 200);
  EXPECT_EQ(rounds[2].result.sequences[0].committed, 6);
}

TEST(StepRunnerTest, AHangingRoundHasNoResultAndEndsWhenInterrupted) {
  StepRunnerOptions options = Options();
  options.faults = {*ParseFault("hang@2")};
  StepRunner runner(options);
  std::future<std::vector<Round>> rounds =
      std::async(std::launch::async, [&] { return RunLease(runner, 3); });

  EXPECT_EQ(rounds.wait_for(milliseconds(20)), std::future_status::timeout);
  runner.Interrupt();

  EXPECT_TRUE(rounds.get().empty());
}

}  // namespace
}  // namespace bole::simulation
