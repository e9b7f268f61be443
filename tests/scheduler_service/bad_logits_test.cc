// A request whose logits are not numbers fails by name, and alone.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedOutput;
using ::bole::testing::SimulatedWorker;
using ::bole::testing::TreeOptions;
using ::testing::HasSubstr;

// With a worker that lends rounds, if the plan lets it.
class BadLogitsTest : public SchedulerTest {
 protected:
  static StepLimits Limits() {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.max_lease_rounds = kMaxLeaseRounds;
    return limits;
  }
  BadLogitsTest() : SchedulerTest(TreeOptions(), Limits()) {
    Tell(worker_.Connect());
  }

  // How a request ends whose logits at that position are not numbers: with the
  // tokens up to the position.
  static void ExpectFailure(Reader& reader, const std::vector<int32_t>& prompt,
                            int position) {
    ExpectEnd(reader, FailureReason::kWorkerFailed);
    EXPECT_EQ(reader.end->status().message(),
              absl::StrCat("the model's logits at position ", position,
                           " are not numbers"));
    const int before = position + 1 - static_cast<int>(prompt.size());
    EXPECT_EQ(reader.tokens, SimulatedOutput(prompt, before));
  }

  std::string Scrape() const {
    return prometheus::TextSerializer().Serialize(
        metrics_.registry()->Collect());
  }
};

TEST_F(BadLogitsTest, OneSequenceOfARoundFailsAndTheOthersGoOn) {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<Reader> readers;
  for (int i = 0; i < 3; ++i) {
    prompts.push_back(RandomPrompt(rng_, 10 + i));
    readers.push_back(Ask(prompts.back(), 40));
  }
  while (worker_.next_plan().sequences.size() < 3) RunRound();
  const SequencePlan bad = worker_.next_plan().sequences[1];

  worker_.FailAt(bad.slot, bad.committed);
  RunAll();

  ExpectFailure(readers[1], prompts[1], bad.committed);
  ExpectOutput(readers[0], SimulatedOutput(prompts[0], 40));
  ExpectOutput(readers[2], SimulatedOutput(prompts[2], 40));
  ExpectAllFree();
  EXPECT_THAT(Scrape(), HasSubstr("\nbole_bad_logits_total 1\n"));
}

TEST_F(BadLogitsTest, TokensFromBeforeAreDelivered) {
  for (int position = 20; position < 50; ++position) {
    SCOPED_TRACE(position);
    const std::vector<int32_t> prompt = RandomPrompt(rng_, 20);
    Reader reader = Ask(prompt, 60);
    worker_.FailAt(worker_.next_plan().prefills[0].sequence.slot, position);

    RunAll();

    ExpectFailure(reader, prompt, position);
    ExpectAllFree();
  }
}

TEST_F(BadLogitsTest, APromptFails) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 20);
  Reader reader = Ask(prompt, 60);
  worker_.FailAt(worker_.next_plan().prefills[0].sequence.slot, 19);

  RunAll();

  ExpectFailure(reader, prompt, 19);
  EXPECT_TRUE(reader.tokens.empty());
  ExpectAllFree();
}

// The rounds of the lease that are still to come have nothing for it.
TEST_F(BadLogitsTest, ASequenceFailsWithinALease) {
  const std::vector<int32_t> bad_prompt = RandomPrompt(rng_, 30);
  const std::vector<int32_t> good_prompt = RandomPrompt(rng_, 12);
  Reader bad_reader = Ask(bad_prompt, 90);
  Reader good_reader = Ask(good_prompt, 90);
  while (!worker_.next_plan().lease) RunRound();
  const SequencePlan bad = worker_.next_plan().sequences[0];
  const int position = bad.committed + 6;  // Not in its first round.

  worker_.FailAt(bad.slot, position);
  RunAll();

  ExpectFailure(bad_reader, bad_prompt, position);
  ExpectOutput(good_reader, SimulatedOutput(good_prompt, 90));
  ExpectAllFree();
  EXPECT_THAT(Scrape(), HasSubstr("\nbole_bad_logits_total 1\n"));
}

}  // namespace
}  // namespace bole
