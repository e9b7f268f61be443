// A scheduler under traffic of every kind at once.
#include <chrono>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/scheduler_service/asked.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::Asked;
using ::bole::testing::ExpectModelsText;
using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::ScarcePagesTest;
using ::std::chrono::milliseconds;
using ::std::chrono::seconds;

// Everything at random, for every other seed with leases; whatever ends well
// has the right text, and nothing is lost in between.
class RandomTrafficTest : public ScarcePagesTest,
                          public ::testing::WithParamInterface<int> {
 protected:
  RandomTrafficTest() : ScarcePagesTest(GetParam() % 2 == 0 ? 3 : 1) {}

  void AskAtRandom() {
    const int length = testing::UniformInt(rng_, 1, 130);
    Asked asked{.prompt = RandomPrompt(rng_, length),
                .max_tokens = testing::UniformInt(rng_, 1, 60),
                .reader = {}};
    auto request = MakeRequest(asked.prompt, asked.max_tokens, now_);
    if (testing::UniformInt(rng_, 0, 4) == 0) {
      request->deadline = now_ + milliseconds(testing::UniformInt(rng_, 0, 40));
    }
    asked.reader = Ask(std::move(request));
    asked_.push_back(std::move(asked));
  }

  void DoSomething() {
    switch (testing::UniformInt(rng_, 0, 19)) {
      case 0:
      case 1:
      case 2:
        return AskAtRandom();
      case 3:
        if (asked_.empty()) return;
        asked_[testing::UniformInt(rng_, 0,
                                   static_cast<int>(asked_.size()) - 1)]
            .reader.stream->Cancel();
        return Look();
      case 4:
        if (!scheduler_.status().connected()) return Tell(worker_.Connect());
        if (testing::UniformInt(rng_, 0, 9) == 0) Tell(worker_.Lose());
        return;
      default:
        if (worker_.has_plan()) RunRound();
    }
  }

  std::vector<Asked> asked_;
};

TEST_P(RandomTrafficTest, NothingIsLostRepeatedOrLeaked) {
  rng_.seed(GetParam());
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(i);
    DoSomething();
    ASSERT_EQ(scheduler_.status().audit, "");
    ASSERT_FALSE(HasFailure());
  }
  if (!scheduler_.status().connected()) Tell(worker_.Connect());
  now_ += seconds(1);
  Look();
  RunAll();

  ExpectAllFree();
  EXPECT_EQ(dequeued_, std::ssize(asked_));
  int whole = 0;
  for (Asked& asked : asked_) whole += ExpectModelsText(asked) ? 1 : 0;
  EXPECT_GT(whole, std::ssize(asked_) / 4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomTrafficTest, ::testing::Range(1, 9));

}  // namespace
}  // namespace bole
