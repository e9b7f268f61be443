// Log probabilities of the prompt: each once, whatever becomes of the workers.
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedOutput;
using ::bole::testing::SimulatedPromptLogprobs;

class SchedulerPromptTest : public SchedulerTest {
 protected:
  SchedulerPromptTest() { Tell(worker_.Connect()); }

  Reader AskFor(int num_alternatives, std::vector<int32_t> resumed = {}) {
    std::unique_ptr<Request> request = MakeRequest(prompt_, kMaxTokens, now_);
    request->sampling.prompt_logprobs = num_alternatives;
    request->resumed = std::move(resumed);
    return Ask(std::move(request));
  }
  // How many tokens the chunks of the coming round have, and whether they ask.
  std::vector<std::pair<size_t, bool>> NextChunks() {
    std::vector<std::pair<size_t, bool>> chunks;
    for (const PrefillPlan& chunk : worker_.next_plan().prefills) {
      chunks.emplace_back(chunk.tokens.size(),
                          chunk.prompt_logprobs.has_value());
    }
    return chunks;
  }
  void ExpectAll(Reader& reader, int num_alternatives) {
    ExpectOutput(reader, SimulatedOutput(prompt_, kMaxTokens));
    EXPECT_EQ(reader.prompt_logprobs,
              SimulatedPromptLogprobs(prompt_, num_alternatives));
    ExpectAllFree();
  }

  static constexpr int kMaxTokens = 40;
  using Chunks = std::vector<std::pair<size_t, bool>>;
  const std::vector<int32_t> prompt_ = RandomPrompt(rng_, 300);
};

TEST_F(SchedulerPromptTest, TheyComeWithTheFirstTokens) {
  for (const int num_alternatives : {0, 3}) {
    Reader reader = AskFor(num_alternatives);
    EXPECT_EQ(NextChunks(), (Chunks{{128, true}}));
    RunRound();
    RunRound();
    EXPECT_TRUE(reader.stream->Take().empty());
    EXPECT_EQ(NextChunks(), (Chunks{{44, true}}));
    RunRound();

    reader.Read();
    EXPECT_EQ(reader.prompt_logprobs.size(), 299u);
    EXPECT_EQ(reader.tokens.size(), 1u);
    RunAll();
    ExpectAll(reader, num_alternatives);
  }
}

// Other prompts need room as well, so that the worker has read 64 + 128 tokens
// when it is lost. The next one reads other chunks.
TEST_F(SchedulerPromptTest, EachComesOnceWhenAWorkerIsLostInThePrompt) {
  const std::vector<int32_t> other_prompt = RandomPrompt(rng_, 64);
  Reader others[] = {Ask(other_prompt, kMaxTokens),
                     Ask(other_prompt, kMaxTokens)};
  Reader reader = AskFor(2);
  RunRound();
  EXPECT_EQ(NextChunks(), (Chunks{{64, false}, {64, true}}));
  RunRound();
  EXPECT_EQ(NextChunks(), (Chunks{{128, true}}));
  RunRound();

  Tell(worker_.Lose());
  Tell(worker_.Connect());

  // What is known is not asked for again.
  std::vector<bool> asked;
  for (int committed = 0; committed < 300; RunRound()) {
    for (const PrefillPlan& chunk : worker_.next_plan().prefills) {
      if (chunk.sequence.prompt_length != 300) continue;
      committed += static_cast<int>(chunk.tokens.size());
      asked.push_back(chunk.prompt_logprobs.has_value());
      EXPECT_EQ(asked.back(), committed > 192) << committed;
    }
  }
  EXPECT_GE(asked.size(), 3u);
  RunAll();
  for (Reader& other : others) {
    ExpectOutput(other, SimulatedOutput(other_prompt, kMaxTokens));
    EXPECT_TRUE(other.prompt_logprobs.empty());
  }
  ExpectAll(reader, 2);
}

TEST_F(SchedulerPromptTest, NoneComesAgainWhenAWorkerIsLostInTheOutput) {
  Reader reader = AskFor(1);
  for (int i = 0; i < 5; ++i) RunRound();
  reader.Read();
  EXPECT_GT(reader.tokens.size(), 1u);

  Tell(worker_.Lose());
  Tell(worker_.Connect());
  EXPECT_EQ(NextChunks(), (Chunks{{128, false}}));
  RunAll();

  ExpectAll(reader, 1);
}

TEST_F(SchedulerPromptTest, AResumedRequestGetsThem) {
  const std::vector<int32_t> output = SimulatedOutput(prompt_, kMaxTokens);
  Reader reader = AskFor(1, {output.begin(), output.begin() + 10});
  RunAll();

  ExpectOutput(reader, {output.begin() + 10, output.end()});
  EXPECT_EQ(reader.prompt_logprobs, SimulatedPromptLogprobs(prompt_, 1));
}

TEST_F(SchedulerPromptTest, AWorkerThatDoesNotKnowOfThemFailsTheRequestAlone) {
  Reader reader = AskFor(1);
  Reader other = Ask(prompt_, kMaxTokens);
  WorkerOutcome outcome = worker_.Run();
  outcome.result->prefills[0].prompt_logprobs.clear();
  Tell(std::move(outcome));
  RunAll();

  ExpectEnd(reader, absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(reader.tokens.empty());
  EXPECT_TRUE(scheduler_.status().connected());
  ExpectOutput(other, SimulatedOutput(prompt_, kMaxTokens));
}

TEST_F(SchedulerPromptTest, ARequestFailsWhereAnyOfItsPromptIsNotNumbers) {
  Reader reader = AskFor(1);
  worker_.FailAt(worker_.next_plan().prefills[0].sequence.slot, 150);
  RunAll();

  ExpectEnd(reader, absl::StatusCode::kInternal);
  EXPECT_EQ(reader.end->status().message(),
            "the model's logits at position 150 are not numbers");
  EXPECT_TRUE(reader.prompt_logprobs.empty());
  ExpectAllFree();
}

}  // namespace
}  // namespace bole
