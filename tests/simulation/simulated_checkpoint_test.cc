// What the simulated engine finds where requests go on from checkpoints.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/packed_forest.h"
#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulated_engine.h"
#include "tests/simulation/simulated_text.h"

namespace bole::simulation {
namespace {

using ::testing::HasSubstr;

constexpr DraftShape kShape = {.top_k = 3, .depth = 2};

SimulatedEngineOptions Options() {
  return {.limits = {.max_requests = 4,
                     .max_nodes = 16,
                     .max_nodes_per_tree = 8,
                     .max_prefill_tokens = 64,
                     .max_draft = kShape,
                     .num_slots = 6,
                     .num_pages = 24,
                     .num_host_slots = 2,
                     .num_host_pages = 8,
                     .page_size = 8,
                     .max_context = 72,
                     .vocabulary = 128},
          .text = LetterText()};
}

std::vector<int32_t> Prompt(int length, int first) {
  std::vector<int32_t> prompt(length);
  for (int i = 0; i < length; ++i) prompt[i] = (first + 7 * i) % 100;
  return prompt;
}

// One request leaves a checkpoint at its end, and another one, whose prompt is
// all of that and more, goes on from it.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : engine_(Options()) {
    first_ = {.slot = SlotId(0),
              .pages = Pages(0),
              .prompt_length = 20,
              .max_new_tokens = 50};
    StepPlan plan{.draft = kShape};
    plan.prefills = {{.sequence = first_, .tokens = text_}};
    SequenceResult result = engine_.RunRound(plan).prefills[0];
    while (text_.size() < 32) {
      text_.push_back(result.emitted[0].token);
      first_.committed = result.committed;
      result = Decode(first_, text_.back(), kShape);
    }
    text_.push_back(result.emitted[0].token);
    first_.committed = result.committed;
    next_ = {.slot = SlotId(1),
             .committed = first_.committed,
             .pages = Pages(10),
             .prompt_length = 40,
             .max_new_tokens = 50};
    next_.sampling.temperature = 0.7f;
    next_.sampling.seed = 3;
    next_.sampling.frequency_penalty = 0.5f;
    prompt_ = Prompt(40, 9);
    std::copy_n(text_.begin(), first_.committed, prompt_.begin());
  }

  static std::vector<PageId> Pages(int first) {
    std::vector<PageId> pages;
    for (int i = first; i < first + 10; ++i) pages.emplace_back(i);
    return pages;
  }
  SequenceResult Decode(const SequencePlan& sequence, int32_t token,
                        const std::optional<DraftShape>& draft) {
    StepPlan plan{.sequences = {sequence}, .draft = draft};
    plan.forest = *BuildForest(
        std::vector<NodeList>{{.token = {token}, .parent = {kNoParent}}});
    return engine_.RunRound(plan).sequences[0];
  }
  // 32 tokens fill four pages, which both have. Slot 4 is the checkpoint.
  StepPlan GoingOn() {
    StepPlan plan{.draft = kShape};
    plan.copies.slots = {
        {.from = SlotId(0), .to = SlotId(4)},
        {.from = SlotId(4), .to = SlotId(1), .output_to_prompt = true}};
    for (int i = 0; i < 4; ++i) next_.pages[i] = PageId(i);
    next_.draft_tail = {prompt_[32]};
    plan.prefills = {
        {.sequence = next_, .tokens = {prompt_.begin() + 32, prompt_.end()}}};
    return plan;
  }
  std::string ProblemOf(const StepPlan& plan) {
    const absl::Status status = Validate(plan, Options().limits);
    EXPECT_TRUE(status.ok()) << status;
    engine_.RunRound(plan);
    return engine_.last_problem();
  }

  SimulatedEngine engine_;
  std::vector<int32_t> text_ = Prompt(20, 3);
  SequencePlan first_, next_;
  std::vector<int32_t> prompt_;
};

TEST_F(CheckpointTest, WhoGoesOnWritesWhatAFreshPrefillWrites) {
  const StepPlan plan = GoingOn();
  ASSERT_EQ(first_.committed, 32);

  const StepResult result = engine_.RunRound(plan);

  const std::vector<int32_t> expected =
      ExpectedOutput(Options().text, prompt_, next_.sampling, 2);
  EXPECT_EQ(result.prefills[0].emitted[0].token, expected[0]);
  next_.committed = 40;
  next_.draft_tail.clear();
  EXPECT_EQ(Decode(next_, expected[0], kShape).emitted[0].token, expected[1]);
  // And the first one may go on in its slot.
  Decode(first_, text_.back(), kShape);
  EXPECT_EQ(engine_.num_problems(), 0) << engine_.last_problem();
}

// Through the host, while another text takes slot and pages.
TEST_F(CheckpointTest, WhatWentToTheHostComesBack) {
  const SequencePlan next = next_;
  const auto leave_and_come_back = [&](int last_page) {
    StepPlan leaving{.draft = kShape};
    leaving.to_host.slots = {{.from = SlotId(0), .to = SlotId(1)}};
    for (int i = 0; i < 4; ++i) {
      leaving.to_host.pages.push_back({.from = PageId(i), .to = PageId(7 - i)});
    }
    SequencePlan other = first_;
    other.committed = 0;
    leaving.prefills = {{.sequence = other, .tokens = Prompt(20, 50)}};
    EXPECT_EQ(ProblemOf(leaving), "");
    next_ = next;
    StepPlan plan = GoingOn();
    next_.pages = plan.prefills[0].sequence.pages = Pages(10);
    plan.copies = {};
    plan.from_host.slots = {
        {.from = SlotId(1), .to = SlotId(1), .output_to_prompt = true}};
    for (int i = 0; i < 4; ++i) {
      plan.from_host.pages.push_back(
          {.from = PageId(i < 3 ? 7 - i : last_page), .to = PageId(10 + i)});
    }
    return plan;
  };

  StepPlan plan = leave_and_come_back(/*last_page=*/4);
  EXPECT_EQ(Validate(plan, Options().limits), absl::OkStatus());
  const StepResult result = engine_.RunRound(plan);

  EXPECT_EQ(engine_.num_problems(), 0) << engine_.last_problem();
  EXPECT_EQ(result.prefills[0].emitted[0].token,
            ExpectedOutput(Options().text, prompt_, next_.sampling, 1)[0]);
  plan.from_host.pages[3].from = PageId(5);
  EXPECT_THAT(ProblemOf(plan), HasSubstr("pages of slot 1 do not hold the"));
}

TEST_F(CheckpointTest, CountsThatStayOutputGiveAnotherText) {
  StepPlan plan = GoingOn();
  plan.copies.slots[1].output_to_prompt = false;

  const StepResult result = engine_.RunRound(plan);

  EXPECT_NE(result.prefills[0].emitted[0].token,
            ExpectedOutput(Options().text, prompt_, next_.sampling, 1)[0]);
}

TEST_F(CheckpointTest, WithoutTheSlotOrThePageItsTokensAreNotThere) {
  StepPlan plan = GoingOn();
  plan.prefills[0].sequence.pages[3] = PageId(13);
  EXPECT_THAT(ProblemOf(plan), HasSubstr("pages of slot 1 do not hold the"));
  plan.copies.slots.clear();
  plan.prefills[0].sequence.slot = SlotId(2);
  EXPECT_THAT(ProblemOf(plan), HasSubstr("slot 2 holds 0 tokens"));
}

TEST_F(CheckpointTest, WithoutATailItsDrafterHasAnothersToken) {
  StepPlan plan = GoingOn();
  plan.prefills[0].sequence.draft_tail.clear();
  EXPECT_THAT(ProblemOf(plan),
              HasSubstr("slot 1 do not hold what its drafter has of its 40"));
}

TEST_F(CheckpointTest, ATailNeedsWhatWasKept) {
  StepPlan plan = GoingOn();
  plan.prefills[0].sequence.draft_tail = {prompt_[31], prompt_[32]};
  EXPECT_THAT(ProblemOf(plan), HasSubstr("keeps 1 tokens for its drafter"));
}

}  // namespace
}  // namespace bole::simulation
