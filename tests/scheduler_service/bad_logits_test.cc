// A request whose logits are not numbers fails by name, and alone.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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

  // A round whose result says that the sequence failed after `kept` of the
  // tokens that it would have emitted.
  void RunRoundThatFails(std::vector<SequenceResult> StepResult::*of,
                         size_t index, int kept) {
    now_ += std::chrono::milliseconds(1);
    WorkerOutcome outcome = worker_.Run();
    SequenceResult& result = ((*outcome.result).*of)[index];
    ASSERT_GT(std::ssize(result.emitted), kept);
    result.emitted.resize(kept);
    result.accepted_drafts = std::min(result.accepted_drafts, kept);
    result.proposal.reset();
    result.bad_logits_position = 1234;
    Tell(std::move(outcome));
  }

  static void ExpectBadLogits(Reader& reader) {
    ExpectEnd(reader, absl::StatusCode::kInternal);
    EXPECT_THAT(
        std::string(reader.end->status().message()),
        HasSubstr("the model's logits at position 1234 are not numbers"));
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
  RunRound();
  while (worker_.next_plan().sequences.size() < 3) RunRound();

  RunRoundThatFails(&StepResult::sequences, 1, /*kept=*/0);
  RunAll();

  ExpectBadLogits(readers[1]);
  EXPECT_LT(readers[1].tokens.size(), 40u);
  ExpectOutput(readers[0], SimulatedOutput(prompts[0], 40));
  ExpectOutput(readers[2], SimulatedOutput(prompts[2], 40));
  ExpectAllFree();
  EXPECT_THAT(Scrape(), HasSubstr("\nbole_bad_logits_total 1\n"));
}

TEST_F(BadLogitsTest, TokensFromBeforeAreDelivered) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 20);
  Reader reader = Ask(prompt, 60);
  RunRound();
  reader.Read();
  const size_t before = reader.tokens.size();

  RunRoundThatFails(&StepResult::sequences, 0, /*kept=*/1);

  ExpectBadLogits(reader);
  EXPECT_EQ(reader.tokens,
            SimulatedOutput(prompt, static_cast<int>(before) + 1));
}

TEST_F(BadLogitsTest, APromptFails) {
  Reader bad = Ask(RandomPrompt(rng_, 20), 60);

  RunRoundThatFails(&StepResult::prefills, 0, /*kept=*/0);

  ExpectBadLogits(bad);
  EXPECT_TRUE(bad.tokens.empty());
  EXPECT_FALSE(worker_.has_plan());
  ExpectAllFree();
}

// The rounds of the lease that are still to come have nothing for it.
TEST_F(BadLogitsTest, ASequenceFailsWithinALease) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 12);
  Reader bad = Ask(RandomPrompt(rng_, 30), 90);
  Reader good = Ask(prompt, 90);
  RunRound();
  while (!worker_.next_plan().lease) RunRound();
  RunRound();

  RunRoundThatFails(&StepResult::sequences, 0, /*kept=*/1);
  RunAll();

  ExpectBadLogits(bad);
  ExpectOutput(good, SimulatedOutput(prompt, 90));
  ExpectAllFree();
  EXPECT_THAT(Scrape(), HasSubstr("\nbole_bad_logits_total 1\n"));
}

}  // namespace
}  // namespace bole
