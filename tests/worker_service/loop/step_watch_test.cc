#include "worker_service/loop/step_watch.h"

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

StepPlan MixedPlan() {
  StepPlan plan;
  plan.prefills = {{.sequence = {.slot = SlotId(0)}, .tokens = {1, 2, 3}},
                   {.sequence = {.slot = SlotId(1)}, .tokens = {4}}};
  plan.sequences = {{.slot = SlotId(2)}};
  plan.forest = *BuildForest(
      std::vector<NodeList>{{.token = {1, 2}, .parent = {kNoParent, 0}}});
  plan.lease = Lease{.rounds = 4, .budget = 8};
  return plan;
}

class StepWatchTest : public ::testing::Test {
 protected:
  const StepPlan plan_ = MixedPlan();
  const StepWatch::Clock::time_point start_{};
  StepWatch watch_{seconds(10)};
};

TEST_F(StepWatchTest, NamesThePlanThatHangsAndItsSizes) {
  watch_.Begin(3, 17, plan_, start_);
  EXPECT_TRUE(watch_.Check(start_ + seconds(10)).ok());

  const absl::Status status = watch_.Check(start_ + milliseconds(10'500));

  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(
          "plan 17 of stream 3 (2 prefill chunks of 4 tokens, 1 tree of 2 "
          "nodes, 4 rounds) has given no result for 10.5 s, after 0 "
          "results: "));
}

TEST_F(StepWatchTest, ALeaseMayTakeTheTimeoutForEachOfItsRounds) {
  watch_.Begin(3, 17, plan_, start_);
  watch_.AddResult(start_ + seconds(9));
  watch_.AddResult(start_ + seconds(18));

  EXPECT_TRUE(watch_.Check(start_ + seconds(28)).ok());
  EXPECT_THAT(std::string(watch_.Check(start_ + seconds(29)).message()),
              HasSubstr("no result for 11 s, after 2 results"));
}

TEST_F(StepWatchTest, NothingHangsBetweenSteps) {
  EXPECT_TRUE(watch_.Check(start_ + seconds(1000)).ok());
  watch_.Begin(3, 1, plan_, start_);
  watch_.AddResult(start_ + seconds(1));
  watch_.End();

  EXPECT_TRUE(watch_.Check(start_ + seconds(1000)).ok());
}

}  // namespace
}  // namespace bole
