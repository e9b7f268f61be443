#include "tests/simulation/faults.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace bole::simulation {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

Fault Parsed(const std::string& text) {
  const auto fault = ParseFault(text);
  EXPECT_TRUE(fault.ok()) << text << ": " << fault.status();
  return fault.value_or(Fault());
}

TEST(ParseFaultTest, RoundsAreOneOrARange) {
  const Fault crash = Parsed("crash@12");
  EXPECT_EQ(crash.kind, FaultKind::kCrash);
  EXPECT_EQ(crash.first_round, 12);
  EXPECT_EQ(crash.last_round, 12);
  EXPECT_EQ(crash.probability, 1);
  const Fault hang = Parsed("hang@3-5");
  EXPECT_EQ(hang.kind, FaultKind::kHang);
  EXPECT_EQ(hang.first_round, 3);
  EXPECT_EQ(hang.last_round, 5);
  EXPECT_EQ(Parsed("hang@3-").last_round, kForever);
}

TEST(ParseFaultTest, KindsHaveDetails) {
  const Fault slow = Parsed("slow:2.5@1-");
  EXPECT_EQ(slow.kind, FaultKind::kSlow);
  EXPECT_EQ(slow.factor, 2.5);
  EXPECT_FALSE(Parsed("garbage@1").garbage.has_value());
  EXPECT_EQ(Parsed("garbage=tree@1").garbage, Garbage::kTree);
  EXPECT_EQ(Parsed("garbage=committed:random=0.5").garbage,
            Garbage::kCommitted);
}

TEST(ParseFaultTest, ChancesHaveASeed) {
  const Fault fault = Parsed("slow:4:random=0.25,9");
  EXPECT_EQ(fault.factor, 4);
  EXPECT_EQ(fault.probability, 0.25);
  EXPECT_EQ(fault.seed, 9u);
  EXPECT_EQ(fault.first_round, 1);
  EXPECT_EQ(fault.last_round, kForever);
  EXPECT_EQ(Parsed("crash:random=1").seed, 0u);
}

TEST(ParseFaultTest, ErrorsSayWhatIsAllowed) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {{"crash", "a fault is 'crash', not KIND@ROUND"},
               {"crush@1", "the kind of a fault is 'crush', not crash"},
               {"crash@0", "the round of a fault is '0'"},
               {"crash@5-4", "'5-4'"},
               {"crash@x", "'x'"},
               {"slow@1", "the factor of slow is ''"},
               {"slow:0.5@1", "the factor of slow is '0.5'"},
               {"slow:nan@1", "'nan'"},
               {"garbage=text@1", "garbage is 'text', not committed"},
               {"crash:random=2", "the chance of a fault is '2'"},
               {"crash:random=nan", "'nan'"},
               {"crash:random=0.1,x", "'0.1,x'"}};
  for (const auto& [text, message] : cases) {
    const auto fault = ParseFault(text);
    EXPECT_NE(fault.status().message().find(message), absl::string_view::npos)
        << text << ": " << fault.status();
  }
}

TEST(FaultsOfTest, AFaultHappensInItsRoundsAlone) {
  const std::vector<Fault> faults = {Parsed("slow:2@3-4"), Parsed("slow:3@4-"),
                                     Parsed("garbage=round@2"),
                                     Parsed("hang@5"), Parsed("crash@6")};
  EXPECT_EQ(FaultsOf(faults, 1).slowness, 1);
  EXPECT_FALSE(FaultsOf(faults, 1).garbage.has_value());
  EXPECT_EQ(FaultsOf(faults, 2).garbage, Garbage::kRound);
  EXPECT_EQ(FaultsOf(faults, 3).slowness, 2);
  EXPECT_EQ(FaultsOf(faults, 4).slowness, 6);
  EXPECT_FALSE(FaultsOf(faults, 4).hang);
  EXPECT_TRUE(FaultsOf(faults, 5).hang);
  EXPECT_TRUE(FaultsOf(faults, 6).crash);
}

TEST(FaultsOfTest, EverySignalHasItsFault) {
  const std::vector<Fault> faults = {Parsed("garbage=round@signal"),
                                     Parsed("slow:2@3"),
                                     Parsed("crash@signal")};

  EXPECT_FALSE(FaultsOf(faults, 1).garbage.has_value());
  EXPECT_EQ(FaultsOf(faults, 1, /*signal=*/1).garbage, Garbage::kRound);
  EXPECT_FALSE(FaultsOf(faults, 1, /*signal=*/1).crash);
  EXPECT_TRUE(FaultsOf(faults, 3, /*signal=*/2).crash);
  EXPECT_EQ(FaultsOf(faults, 3, /*signal=*/2).slowness, 2);
  EXPECT_FALSE(FaultsOf(faults, 2, /*signal=*/3).crash);
}

TEST(FaultsOfTest, ChancesAreKeptAndComeAgain) {
  const std::vector<Fault> faults = {Parsed("crash:random=0.1,3")};
  const std::vector<Fault> others = {Parsed("crash:random=0.1,4")};
  int count = 0;
  int differ = 0;
  for (int round = 1; round <= 10'000; ++round) {
    const bool crash = FaultsOf(faults, round).crash;
    EXPECT_EQ(crash, FaultsOf(faults, round).crash);
    count += crash ? 1 : 0;
    differ += crash != FaultsOf(others, round).crash ? 1 : 0;
  }
  EXPECT_NEAR(count, 1000, 150);  // Five standard deviations.
  EXPECT_GT(differ, 1000);
}

TEST(FaultsOfTest, GarbageWithoutANameIsOfEveryKind) {
  const std::vector<Fault> faults = {Parsed("garbage@1-")};
  std::vector<bool> seen(kNumGarbage);
  for (int round = 1; round <= 100; ++round) {
    seen[static_cast<size_t>(*FaultsOf(faults, round).garbage)] = true;
  }
  EXPECT_EQ(seen, std::vector<bool>(kNumGarbage, true));
}

class SpoilTest : public ::testing::Test {
 protected:
  static StepResult Good() {
    StepResult result;
    result.sequences.push_back(
        {.committed = 10,
         .emitted = {{.token = 3, .logprob = -1, .top = {}}},
         .accepted_drafts = 0,
         .proposal = ProposalTree{{kNoParent, 0, 1}, {3, 4, 5}, {0, -1, -2}}});
    return result;
  }
  static StepLimits Limits() {
    StepLimits limits;
    limits.max_context = 100;
    limits.vocabulary = 50;
    return limits;
  }
  static StepResult Spoiled(Garbage garbage, StepResult result = Good()) {
    Spoil({.garbage = garbage, .bits = 12345}, Limits(), result);
    return result;
  }
};

TEST_F(SpoilTest, EachKindBreaksWhatItSays) {
  EXPECT_GT(Spoiled(Garbage::kCommitted).sequences[0].committed, 100);
  EXPECT_GE(Spoiled(Garbage::kToken).sequences[0].emitted[0].token, 50);
  EXPECT_NE(Spoiled(Garbage::kRound).round, 0);
  EXPECT_FALSE(Validate(*Spoiled(Garbage::kTree).sequences[0].proposal).ok());
  EXPECT_TRUE(Spoiled(Garbage::kShape).sequences.empty());
  EXPECT_GT(Spoiled(Garbage::kMany).sequences[0].emitted.size(), 100u);
}

TEST_F(SpoilTest, WithoutAFaultNothingChanges) {
  StepResult result = Good();
  Spoil({}, Limits(), result);
  EXPECT_EQ(result, Good());
}

TEST_F(SpoilTest, AResultThatLacksItLosesASequence) {
  StepResult chunks;
  chunks.prefills.emplace_back().committed = 64;
  EXPECT_TRUE(Spoiled(Garbage::kTree, chunks).prefills.empty());
  EXPECT_TRUE(Spoiled(Garbage::kToken, chunks).prefills.empty());
}

}  // namespace
}  // namespace bole::simulation
