#include "tests/simulation/simulated_engine.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/plan_driver.h"
#include "tests/simulation/simulated_text.h"

namespace bole::simulation {
namespace {

using ::testing::HasSubstr;
using Sequence = PlanDriver::Sequence;

constexpr DraftShape kShape = {.top_k = 3, .depth = 5};
constexpr int kStop = 90;

SimulatedEngineOptions Options() {
  SimulatedEngineOptions options;
  options.limits = {.max_requests = 4,
                    .max_nodes = 64,
                    .max_nodes_per_tree = 16,
                    .max_prefill_tokens = 512,
                    .max_draft = kShape,
                    .num_slots = 6,
                    .num_pages = 96,
                    .page_size = 8,
                    .max_context = 256,
                    .vocabulary = 100,
                    .max_lease_rounds = kMaxLeaseRounds};
  for (int32_t token = 10; token < 60; ++token) {
    options.text.alphabet.push_back(token);
  }
  options.text.stop_tokens = {kStop};
  options.accept = {0.9, 0.8};
  return options;
}

std::vector<int32_t> Prompt(int length, int first) {
  std::vector<int32_t> prompt(length);
  for (int i = 0; i < length; ++i) prompt[i] = (first + 7 * i) % 100;
  return prompt;
}

SamplingParams Seeded(uint64_t seed) {
  SamplingParams sampling;
  sampling.temperature = 0.7f;
  sampling.seed = seed;
  return sampling;
}

// Two sequences of other lengths and parameters.
std::vector<Sequence> Two() {
  SamplingParams penalized = Seeded(2);
  penalized.repetition_penalty = 1.5f;
  return {{.prompt = Prompt(70, 3), .sampling = Seeded(1), .num_tokens = 60},
          {.prompt = Prompt(41, 5), .sampling = penalized, .num_tokens = 80}};
}

std::vector<int32_t> Expected(const Sequence& sequence) {
  return ExpectedOutput(Options().text, sequence.prompt, sequence.sampling,
                        sequence.num_tokens, sequence.stops);
}

void ExpectRight(const std::vector<Sequence>& sequences) {
  for (const Sequence& sequence : sequences) {
    EXPECT_EQ(sequence.output(), Expected(sequence));
  }
}

class AnyPlansTest : public ::testing::TestWithParam<DriverOptions> {};

TEST_P(AnyPlansTest, ChunksTreesBatchesAndLeasesDoNotMatter) {
  SimulatedEngine together(Options());
  ExpectRight(PlanDriver(together, GetParam(), Two()).Run());
  EXPECT_EQ(together.num_problems(), 0) << together.last_problem();

  // The memory is as it was left.
  for (const Sequence& sequence : Two()) {
    ExpectRight(PlanDriver(together, GetParam(), {sequence}).Run());
  }
}

TEST_P(AnyPlansTest, APreemptedSequenceGoesOnElsewhere) {
  SimulatedEngine engine(Options());
  PlanDriver driver(engine, GetParam(), Two());
  for (int i = 0; i < 4; ++i) driver.RunPlan();

  driver.Preempt(1, SlotId(4));

  ExpectRight(driver.Run());
  EXPECT_EQ(engine.num_problems(), 0) << engine.last_problem();
}

TEST_P(AnyPlansTest, AStopTokenEndsASequence) {
  SimulatedEngine engine(Options());
  std::vector<Sequence> sequences = Two();
  sequences[0].stops = {Expected(sequences[0])[20]};

  ExpectRight(PlanDriver(engine, GetParam(), sequences).Run());
}

TEST_P(AnyPlansTest, NoStopTokenComesBeforeMinTokens) {
  SimulatedEngine engine(Options());
  std::vector<Sequence> sequences = Two();
  for (int32_t token = 10; token < 40; ++token) {
    sequences[0].stops.push_back(token);
  }
  sequences[0].sampling.min_tokens = 30;

  const std::vector<Sequence> ran =
      PlanDriver(engine, GetParam(), sequences).Run();

  ExpectRight(ran);
  const std::vector<int32_t> output = ran[0].output();
  ASSERT_GT(output.size(), 30u);
  for (int i = 0; i < 30; ++i) EXPECT_GE(output[i], 40) << i;
  EXPECT_LT(output.back(), 40);
}

TEST_P(AnyPlansTest, LogProbabilitiesOfThePromptDependOnItAlone) {
  SimulatedEngine engine(Options());
  DriverOptions options = GetParam();
  options.prompt_logprobs = 2;

  PlanDriver driver(engine, options, Two());
  for (const Sequence& sequence : driver.Run()) {
    EXPECT_EQ(sequence.output(), Expected(sequence));
    EXPECT_EQ(sequence.prompt_logprobs,
              ExpectedPromptLogprobs(Options().text, sequence.prompt, 2,
                                     Options().limits.vocabulary));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, AnyPlansTest,
    ::testing::Values(
        DriverOptions{},
        DriverOptions{
            .chunk = 13, .draft = {}, .nodes_per_tree = 1, .lease_rounds = 5},
        DriverOptions{.draft = DraftShape{.top_k = 1, .depth = 4},
                      .nodes_per_tree = 5},
        DriverOptions{.chunk = 1, .draft = kShape, .nodes_per_tree = 12},
        DriverOptions{.draft = kShape, .nodes_per_tree = 9, .lease_rounds = 4},
        DriverOptions{
            .draft = kShape, .nodes_per_tree = 9, .deferred_plans = 9},
        DriverOptions{.chunk = 20,
                      .draft = kShape,
                      .nodes_per_tree = 6,
                      .lease_rounds = 4,
                      .deferred_plans = 3}));

// Every draft comes after plans that deferred it; `change` is made to the first
// tail of at least three tokens.
std::string ProblemWith(
    const std::function<void(std::vector<int32_t>&)>& change) {
  SimulatedEngine engine(Options());
  PlanDriver driver(engine,
                    {.draft = kShape, .nodes_per_tree = 8, .deferred_plans = 5},
                    Two());
  bool is_changed = false;
  driver.tamper = [&](int, StepPlan& plan) {
    for (SequencePlan& sequence : plan.sequences) {
      if (is_changed || sequence.draft_tail.size() < 3) continue;
      change(sequence.draft_tail);
      is_changed = true;
    }
  };
  while (engine.num_problems() == 0 && driver.RunPlan()) continue;
  EXPECT_TRUE(is_changed);
  return engine.last_problem();
}

TEST(DraftTailTest, WhatADrafterMissedHasToBeShown) {
  EXPECT_EQ(ProblemWith([](std::vector<int32_t>&) {}), "");
  EXPECT_THAT(ProblemWith([](std::vector<int32_t>& tail) { tail.clear(); }),
              HasSubstr("whose drafter has seen"));
  EXPECT_THAT(
      ProblemWith([](std::vector<int32_t>& tail) { tail.erase(tail.begin()); }),
      HasSubstr("whose drafter has seen"));
  EXPECT_THAT(ProblemWith([](std::vector<int32_t>& tail) {
                tail[1] = tail[1] == 10 ? 11 : 10;
              }),
              HasSubstr("other tokens than its sequence"));
  EXPECT_THAT(ProblemWith([](std::vector<int32_t>& tail) {
                tail.insert(tail.begin(), 2, 10);
              }),
              HasSubstr("tokens for its drafter"));
}

// Runs Two() with plans that are changed on their way. Returns which of the two
// have another text than they should.
std::vector<bool> WrongTexts(
    const std::function<void(int, StepPlan&)>& tamper) {
  SimulatedEngine engine(Options());
  PlanDriver driver(engine, {.draft = kShape, .nodes_per_tree = 8}, Two());
  driver.tamper = tamper;
  std::vector<bool> wrong;
  for (const Sequence& sequence : driver.Run()) {
    wrong.push_back(sequence.output() != Expected(sequence));
  }
  return wrong;
}

std::vector<bool> None() { return {false, false}; }
std::vector<bool> First() { return {true, false}; }
std::vector<bool> Both() { return {true, true}; }

// Which texts are wrong after a change of the fifth plan, which has both
// sequences.
std::vector<bool> WrongTextsWith(const std::function<void(StepPlan&)>& change) {
  return WrongTexts([&](int number, StepPlan& plan) {
    if (number == 5) change(plan);
  });
}

TEST(TamperedPlanTest, UnchangedPlansGiveTheRightTexts) {
  EXPECT_EQ(WrongTextsWith([](StepPlan&) {}), None());
}

TEST(TamperedPlanTest, SwappedPagesOfTwoRequestsGiveOtherTexts) {
  EXPECT_EQ(WrongTextsWith([](StepPlan& plan) {
              std::swap(plan.sequences[0].pages[2], plan.sequences[1].pages[2]);
            }),
            Both());
}

TEST(TamperedPlanTest, SwappedSlotsOfTwoRequestsGiveOtherTexts) {
  EXPECT_EQ(WrongTextsWith([](StepPlan& plan) {
              std::swap(plan.sequences[0].slot, plan.sequences[1].slot);
            }),
            Both());
}

TEST(TamperedPlanTest, SwappedPagesOfOneRequestGiveAnotherText) {
  EXPECT_EQ(WrongTextsWith([](StepPlan& plan) {
              std::swap(plan.sequences[0].pages[0], plan.sequences[0].pages[1]);
            }),
            First());
}

TEST(TamperedPlanTest, APageThatNobodyWroteGivesAnotherText) {
  EXPECT_EQ(WrongTextsWith([](StepPlan& plan) {
              plan.sequences[0].pages[3] = PageId(94);
            }),
            First());
}

TEST(TamperedPlanTest, ALostParameterGivesAnotherText) {
  const std::function<void(SequencePlan&)> losses[] = {
      [](SequencePlan& s) { s.sampling.seed = 0; },
      [](SequencePlan& s) { s.sampling.temperature = 1; },
      [](SequencePlan& s) { s.sampling.top_k = 3; },
      [](SequencePlan& s) { s.sampling.top_p = 0.5f; },
      [](SequencePlan& s) { s.sampling.min_p = 0.1f; },
      [](SequencePlan& s) { s.sampling.presence_penalty = 1; },
      [](SequencePlan& s) { s.sampling.frequency_penalty = 1; },
      [](SequencePlan& s) { s.sampling.repetition_penalty = 2; },
      [](SequencePlan& s) {
        s.sampling.logit_bias = {{5, 1.0f}};
      },
      [](SequencePlan& s) { s.prompt_length = 69; }};
  for (const auto& lose : losses) {
    SCOPED_TRACE(&lose - losses);
    EXPECT_EQ(WrongTextsWith([&](StepPlan& plan) { lose(plan.sequences[0]); }),
              First());
  }
}

TEST(TamperedPlanTest, APromptLengthLostInAPrefillChangesPenalizedTexts) {
  SimulatedEngine engine(Options());
  PlanDriver driver(engine, {.chunk = 32, .draft = {}}, Two());
  driver.tamper = [](int number, StepPlan& plan) {
    if (number != 1) return;
    for (PrefillPlan& chunk : plan.prefills) chunk.sequence.prompt_length = 1;
  };
  const std::vector<Sequence>& sequences = driver.Run();

  // Only counts know of it, and only the second has penalties.
  EXPECT_EQ(sequences[0].output(), Expected(sequences[0]));
  EXPECT_NE(sequences[1].output(), Expected(sequences[1]));
}

TEST(TamperedPlanTest, TheEngineNamesWhatDoesNotFit) {
  SimulatedEngine engine(Options());
  PlanDriver driver(engine, {}, Two());
  driver.tamper = [](int number, StepPlan& plan) {
    if (number == 5) plan.sequences[0].pages[3] = PageId(94);
  };

  driver.Run();

  EXPECT_GE(engine.num_problems(), 1);
  EXPECT_NE(engine.last_problem().find("slot 0"), std::string::npos);
}

TEST(SimulatedEngineTest, LogprobsHaveTheTokenAndItsAlternatives) {
  SimulatedEngine engine(Options());
  Sequence sequence = Two()[0];
  sequence.sampling.logprobs = true;
  sequence.sampling.top_logprobs = 4;
  StepPlan plan;
  plan.prefills = {{.sequence = {.slot = SlotId(0),
                                 .sampling = sequence.sampling,
                                 .prompt_length = 70},
                    .tokens = sequence.prompt}};
  for (int i = 0; i < 9; ++i) {
    plan.prefills[0].sequence.pages.push_back(PageId(i));
  }

  const StepResult result = engine.RunRound(plan);

  const EmittedToken& emitted = result.prefills[0].emitted[0];
  ASSERT_EQ(emitted.top.size(), 4u);
  EXPECT_EQ(emitted.top[0], (TokenLogprob{emitted.token, emitted.logprob}));
  for (int i = 1; i < 4; ++i) {
    EXPECT_LT(emitted.top[i].logprob, emitted.top[i - 1].logprob);
  }
}

TEST(SimulatedEngineTest, OptionsThatContradictEachOtherAreRefused) {
  SimulatedEngineOptions small = Options();
  small.text.alphabet.resize(3);
  EXPECT_NE(Validate(small).message().find("4 are needed"), std::string::npos);

  SimulatedEngineOptions outside = Options();
  outside.text.stop_tokens = {100};
  EXPECT_NE(Validate(outside).message().find("token 100"), std::string::npos);

  SimulatedEngineOptions unlikely = Options();
  unlikely.accept = {0.5, 1.5};
  EXPECT_NE(Validate(unlikely).message().find("1.5"), std::string::npos);
}

}  // namespace
}  // namespace bole::simulation
