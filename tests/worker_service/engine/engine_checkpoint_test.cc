// Requests that go on from checkpoints: what they get and leave is what they
// would have got and left without.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/sampling_params.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "tests/worker_service/engine/checkpoint_driver.h"
#include "tests/worker_service/engine/checkpoint_fixture.h"

namespace bole::testing_support {
namespace {

class EngineCheckpointTest : public CheckpointTest {};
BOLE_FOR_EACH_CHECKPOINT_MODEL(EngineCheckpointTest);

// From every boundary of the grid, and to the end of the prompt in one chunk or
// in several.
TEST_P(EngineCheckpointTest, APrefillGoesOnBitForBit) {
  for (const int page_size : {16, 24, 64}) {
    const std::vector<int32_t> text = Text(kPromptTokens, 1);
    CheckpointDriver cached = NewDriver(page_size);
    std::vector<LeftCheckpoint> checkpoints;
    // Its draws need no counts. Those of who goes on do.
    cached.Begin(0, text, Greedy());
    for (int i = 0; i < 3; ++i) {
      cached.AddChunk(0, kPrefillGrid);
      cached.Run(kTree);
      checkpoints.push_back(cached.Leave(0, i));
    }
    cached.Prefill(0);
    for (int i = 0; i < 5; ++i) cached.Round(0, 12, kTree);

    for (const LeftCheckpoint& from : checkpoints) {
      for (const int chunk_tokens : {64, 128, 300}) {
        SCOPED_TRACE(::testing::Message()
                     << "pages of " << page_size << ", from " << from.length
                     << " in chunks of " << chunk_tokens);
        const std::vector<int32_t> prompt =
            Continued(text, from.length, /*seed=*/2 + chunk_tokens);
        const SamplingParams sampling =
            chunk_tokens == 128 ? Greedy() : Penalized();
        CheckpointDriver fresh = NewDriver(page_size);
        fresh.Begin(0, prompt, sampling);

        cached.Begin(1, prompt, sampling, from);

        EXPECT_EQ(cached.Prefill(1, chunk_tokens), fresh.Prefill(0));
        ExpectSameRounds(cached, 1, fresh, 0);
      }
    }
  }
}

// A chunk of the prompt's last token alone, and the same as a forest.
TEST_P(EngineCheckpointTest, OnlyTheLastTokenIsLeft) {
  const std::vector<int32_t> text = Text(128, 1);
  CheckpointDriver cached = NewDriver();
  cached.Begin(0, text);
  cached.AddChunk(0, 128);
  cached.Run(kTree);
  const LeftCheckpoint from = cached.Leave(0, 0);
  const std::vector<int32_t> prompt = Continued(text, 128, 3, 129);
  CheckpointDriver fresh = NewDriver();
  fresh.Begin(0, prompt, Greedy());

  cached.Begin(1, prompt, Greedy(), from);

  EXPECT_EQ(cached.Prefill(1), fresh.Prefill(0));
  ExpectSameRounds(cached, 1, fresh, 0);

  CheckpointDriver other = NewDriver();
  other.Begin(0, prompt, Greedy());
  other.AddChunk(0, 128);
  other.Run(kTree);
  cached.Begin(2, prompt, Greedy(), from);
  ExpectSameRounds(cached, 2, other, 0);
}

// Two go on at once, from one checkpoint and from another, while the request
// that left them decodes in the same plans.
TEST_P(EngineCheckpointTest, OthersInThePlanChangeNothing) {
  const std::vector<int32_t> text = Text(kPromptTokens, 1);
  const std::vector<int32_t> first = Continued(text, 128, 2);
  const std::vector<int32_t> second = Continued(text, 64, 3);
  CheckpointDriver cached = NewDriver();
  cached.Begin(0, text, Penalized());
  cached.AddChunk(0, 64);
  cached.Run(kTree);
  const LeftCheckpoint at_64 = cached.Leave(0, 4);
  cached.AddChunk(0, 64);
  cached.Run(kTree);
  const LeftCheckpoint at_128 = cached.Leave(0, 1);
  cached.Prefill(0);
  CheckpointDriver fresh[3] = {NewDriver(), NewDriver(), NewDriver()};
  fresh[0].Begin(0, text, Penalized());
  fresh[1].Begin(0, first, Greedy());
  fresh[2].Begin(0, second, Penalized());
  std::vector<SequenceResult> of_prompts;
  for (CheckpointDriver& one : fresh) of_prompts.push_back(one.Prefill(0));

  cached.Begin(1, first, Greedy(), at_128);
  cached.Begin(2, second, Penalized(), at_64);
  cached.AddTree(0, 12);
  cached.AddChunk(1);
  cached.AddChunk(2);
  const StepResult result = cached.Run(kTree);

  ASSERT_EQ(result.prefills.size(), 2u);
  EXPECT_EQ(result.prefills[0], of_prompts[1]);
  EXPECT_EQ(result.prefills[1], of_prompts[2]);
  EXPECT_EQ(result.sequences[0], fresh[0].Round(0, 12, kTree));
  for (int i = 0; i < 6; ++i) {
    for (const int number : {0, 1, 2}) cached.AddTree(number, 12);
    const StepResult round = cached.Run(kTree);
    for (const int number : {0, 1, 2}) {
      EXPECT_EQ(round.sequences[number], fresh[number].Round(0, 12, kTree));
    }
  }
  for (const int number : {0, 1, 2}) {
    ExpectSameContent(cached, number, fresh[number], 0);
  }
}

// Two go on while two others draft again after rounds that put it off.
TEST_P(EngineCheckpointTest, MoreTailsThanChunksOrTreesFitAPlan) {
  const std::vector<int32_t> text = Text(kPromptTokens, 1);
  CheckpointDriver cached = NewDriver();
  CheckpointDriver fresh[4] = {NewDriver(), NewDriver(), NewDriver(),
                               NewDriver()};
  LeftCheckpoint from;
  for (const int number : {0, 1}) {
    cached.Begin(number, text, Greedy());
    fresh[number].Begin(0, text, Greedy());
    cached.AddChunk(number, 64);
    cached.Run(kTree);
    if (number == 0) from = cached.Leave(0, 0);
    cached.Prefill(number);
    fresh[number].Prefill(0);
    for (int i = 0; i <= number; ++i) {
      cached.Round(number, 1, std::nullopt);
      fresh[number].Round(0, 1, std::nullopt);
    }
  }
  std::vector<SequenceResult> expected;
  for (const int number : {2, 3}) {
    const std::vector<int32_t> prompt = Continued(text, 64, number, 140);
    fresh[number].Begin(0, prompt, Greedy());
    expected.push_back(fresh[number].Prefill(0));
    cached.Begin(number, prompt, Greedy(), from);
    cached.AddChunk(number);
  }
  for (const int number : {0, 1}) cached.AddTree(number, 1);

  const StepResult result = cached.Run(kTree);

  EXPECT_TRUE(result.prefills == expected);
  for (const int number : {0, 1}) {
    EXPECT_EQ(result.sequences[number], fresh[number].Round(0, 1, kTree));
  }
  for (const int number : {0, 1, 2, 3}) {
    ExpectSameRounds(cached, number, fresh[number], 0);
  }
}

// A copy of a copy, and copies that nothing else of a plan comes with.
TEST_P(EngineCheckpointTest, CopiesComeInTheirOrder) {
  const std::vector<int32_t> text = Text(kPromptTokens, 1);
  CheckpointDriver cached = NewDriver();
  cached.Begin(0, text, Greedy());
  cached.AddChunk(0, 64);
  cached.Run(kTree);
  const LeftCheckpoint from = cached.Leave(0, 0);
  cached.Run(kTree);
  cached.Prefill(0);
  const std::vector<int32_t> prompt = Continued(text, 64, 2);
  CheckpointDriver fresh = NewDriver();
  fresh.Begin(0, prompt, Greedy());

  // Slot 1 gets it, leaves it to another checkpoint, and slot 2 goes on.
  cached.Begin(1, prompt, Greedy(), from);
  LeftCheckpoint again = from;
  again.slot = cached.Leave(1, 1).slot;
  cached.Begin(2, prompt, Greedy(), again);

  EXPECT_EQ(cached.Prefill(2), fresh.Prefill(0));
  ExpectSameRounds(cached, 2, fresh, 0);
}

// The end of a turn: its slot is the checkpoint. `rounds` of the turn's last
// rounds put their draft off.
void EndTurn(CheckpointDriver& driver, const std::vector<int32_t>& prompt,
             const SamplingParams& sampling, int rounds) {
  driver.Begin(0, prompt, sampling);
  driver.Prefill(0);
  for (int i = 0; i < 7; ++i) driver.Round(0, 12, kTree);
  for (int i = 0; i < rounds; ++i) driver.Round(0, 1, std::nullopt);
}

std::vector<int32_t> NextTurn(const CheckpointDriver& driver,
                              std::vector<int32_t> more) {
  std::vector<int32_t> prompt(driver.tokens(0).begin(),
                              driver.tokens(0).begin() + driver.committed(0));
  prompt.insert(prompt.end(), more.begin(), more.end());
  return prompt;
}

// Bit for bit as in the slot that the turn ended in, and whatever becomes of
// that slot. Here the tokens of the turn stay output for the penalties.
TEST_P(EngineCheckpointTest, ANextTurnIsWhatItIsInTheSameSlot) {
  for (const int put_off : {0, 1, 9}) {
    for (const int page_size : {16, 64}) {
      SCOPED_TRACE(::testing::Message()
                   << put_off << " rounds put off, pages of " << page_size);
      CheckpointDriver cached = NewDriver(page_size);
      CheckpointDriver same = NewDriver(page_size);
      EndTurn(cached, Text(100, 4), Penalized(), put_off);
      EndTurn(same, Text(100, 4), Penalized(), put_off);
      const std::vector<int32_t> prompt = NextTurn(cached, Text(40, 5));
      same.GoOnInPlace(0, prompt);

      const LeftCheckpoint from = cached.Leave(0, 0);
      EXPECT_EQ(from.undrafted, put_off);
      for (int i = 0; i < 3; ++i) cached.Round(0, 12, kTree);
      cached.Begin(1, prompt, Penalized(), from, {.output_to_prompt = false});

      EXPECT_EQ(cached.Prefill(1), same.Prefill(0));
      ExpectSameRounds(cached, 1, same, 0);
    }
  }
}

// What a fresh prefill of the whole next turn gives, to rounding: the states
// that decoding leaves are other bits.
TEST_P(EngineCheckpointTest, ANextTurnIsCloseToAFreshPrefill) {
  CheckpointDriver cached = NewDriver();
  EndTurn(cached, Text(100, 4), Greedy(), /*rounds=*/0);
  const std::vector<int32_t> prompt = NextTurn(cached, Text(40, 5));
  CheckpointDriver fresh = NewDriver();
  fresh.Begin(0, prompt, Penalized());
  const LeftCheckpoint from = cached.Leave(0, 0);
  cached.Begin(1, prompt, Penalized(), from);

  SequenceResult got = cached.Prefill(1);
  SequenceResult want = fresh.Prefill(0);
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(got.emitted.size(), want.emitted.size());
    for (size_t j = 0; j < want.emitted.size(); ++j) {
      EXPECT_EQ(got.emitted[j].token, want.emitted[j].token);
      EXPECT_NEAR(got.emitted[j].logprob, want.emitted[j].logprob, 1e-4);
    }
    got = cached.Round(1, 1, kTree);
    want = fresh.Round(0, 1, kTree);
  }
  EXPECT_EQ(cached.Content(1)[2], fresh.Content(0)[2]);
}

struct Seen {
  std::vector<SequenceResult> results;
  std::vector<std::pair<std::string, std::vector<char>>> content;
};

// What the tests above would see if something were left out.
TEST_P(EngineCheckpointTest, WhatIsLeftOutShows) {
  if (!model_.text.empty()) return;  // A text that hardly depends on it.
  const auto run = [this](const GoingOn& how) {
    CheckpointDriver driver = NewDriver();
    driver.Begin(1, Text(kPromptTokens, 8));  // Its pages hold other tokens.
    driver.Prefill(1);
    EndTurn(driver, Text(100, 4), Greedy(), /*rounds=*/0);
    const LeftCheckpoint from = driver.Leave(0, 0);
    SamplingParams sampling = Penalized();
    sampling.frequency_penalty = 2;
    driver.Begin(1, NextTurn(driver, Text(40, 5)), sampling, from, how);
    Seen seen;
    seen.results.push_back(driver.Prefill(1));
    for (int i = 0; i < 16; ++i) {
      seen.results.push_back(driver.Round(1, 12, kTree));
    }
    seen.content = driver.Content(1);
    return seen;
  };
  const Seen whole = run({});
  const Seen tail = run({.shows_tail = false});
  const Seen page = run({.copies_page = false});
  const Seen counts = run({.output_to_prompt = false});

  EXPECT_TRUE(run({}).results == whole.results);
  // The drafter proposes something else, and the text is the same.
  EXPECT_TRUE(tail.results[0].proposal != whole.results[0].proposal);
  EXPECT_TRUE(tail.results[0].emitted == whole.results[0].emitted);
  EXPECT_TRUE(page.results[0].emitted != whole.results[0].emitted);
  EXPECT_TRUE(counts.content[2] != whole.content[2]);
  EXPECT_TRUE(counts.results != whole.results);
}

}  // namespace
}  // namespace bole::testing_support
