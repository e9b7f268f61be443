// Requests that go on from what a worker keeps of others. The simulated engine
// reads every token from where a plan says it is, so that a wrong slot, page or
// copy gives another text, or is blamed.
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using testing::MakeRequest;
using testing::Reader;
using testing::SimulatedOutput;
using testing::SimulatedWorker;
using testing::UniformInt;

// What a worker has: on the device, and on its host.
struct Memory {
  int num_pages = 200;
  int num_slots = 9;
  int num_host_pages = 0;
  int num_host_slots = 0;
};

StepLimits LimitsOf(const Memory& memory) {
  StepLimits limits = SimulatedWorker::SmallLimits();
  limits.num_slots = memory.num_slots;
  limits.num_pages = memory.num_pages;
  limits.num_host_slots = memory.num_host_slots;
  limits.num_host_pages = memory.num_host_pages;
  limits.max_context = 1024;
  limits.max_lease_rounds = 4;
  return limits;
}

class SchedulerCacheTest : public testing::SchedulerTest {
 protected:
  explicit SchedulerCacheTest(const Memory& memory = {})
      : SchedulerTest(testing::TreeOptions(), LimitsOf(memory)) {
    worker_.set_copies(true);
    Connect(0);
  }

  void ExpectAudited() { ASSERT_EQ(scheduler_.status().audit, ""); }
  void RunAllAudited() {
    while (worker_.has_plan() && !HasFatalFailure()) {
      RunRound();
      ExpectAudited();
    }
  }
  // Runs the text to its end, and returns how much of the prompt was cached.
  int RunText(const std::vector<int32_t>& prompt, int num_tokens,
              const std::string& salt = "") {
    auto request = MakeRequest(prompt, num_tokens, now_);
    request->cache_salt = salt;
    Reader reader = Ask(std::move(request));
    RunAllAudited();
    ExpectOutput(reader, SimulatedOutput(prompt, num_tokens));
    return reader.end && reader.end->ok() ? (*reader.end)->cached_tokens : -1;
  }
  std::vector<int32_t> Prompt(int length) {
    return testing::RandomPrompt(rng_, length);
  }
};

std::vector<int32_t> Joined(std::vector<int32_t> a,
                            const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(SchedulerCacheTest, TheNextTurnGoesOnWhereTheLastOneEnded) {
  std::vector<int32_t> text = Prompt(100);
  EXPECT_EQ(RunText(text, 30), 0);
  for (int turn = 0; turn < 4; ++turn) {
    text = Joined(Joined(text, SimulatedOutput(text, 30)), Prompt(20));
    // All but the last token of the turn, which no round has committed.
    EXPECT_EQ(RunText(text, 30), static_cast<int>(text.size()) - 21) << turn;
  }
}

TEST_F(SchedulerCacheTest, OthersWithAnotherSaltRunEverything) {
  const std::vector<int32_t> text = Prompt(500);
  EXPECT_EQ(RunText(text, 10), 0);
  EXPECT_EQ(RunText(text, 10, "salt"), 0);
  EXPECT_EQ(RunText(text, 10, "salt"), 448);  // Where a prompt's grid ends.
}

TEST_F(SchedulerCacheTest, EqualPromptsThatComeTogetherArePrefilledOnce) {
  const std::vector<int32_t> text = Prompt(500);
  std::vector<Reader> readers;
  Mail mail;
  for (int i = 0; i < 4; ++i) {
    auto request = MakeRequest(text, 20, now_);
    readers.push_back({.stream = request->stream});
    mail.requests.push_back(std::move(request));
  }
  Handle(std::move(mail));
  int prefilled = 0;
  while (worker_.has_plan()) {
    for (const PrefillPlan& chunk : worker_.next_plan().prefills) {
      prefilled += static_cast<int>(chunk.tokens.size());
    }
    RunRound();
    ExpectAudited();
  }

  EXPECT_EQ(prefilled, 500 + 3 * (500 - 448));
  for (Reader& reader : readers) {
    ExpectOutput(reader, SimulatedOutput(text, 20));
    EXPECT_EQ((*reader.end)->cached_tokens, &reader == &readers[0] ? 0 : 448);
  }
}

TEST_F(SchedulerCacheTest, ARefusedPlanHasCopiedNothing) {
  const std::vector<int32_t> text = Prompt(300);
  const std::vector<int32_t> other = Prompt(20);
  EXPECT_EQ(RunText(text, 10), 0);
  Reader first = Ask(other, 10);
  Reader second = Ask(text, 10);
  RunRound();  // Of the first one alone.
  ASSERT_EQ(worker_.next_plan().copies.slots.size(), 1u);

  Tell(worker_.Refuse(absl::InvalidArgumentError("no")));
  RunAllAudited();

  ExpectOutput(first, SimulatedOutput(other, 10));
  ExpectOutput(second, SimulatedOutput(text, 10));
  EXPECT_EQ((*second.end)->cached_tokens, 256);
}

TEST_F(SchedulerCacheTest, AnotherConnectionBeginsCold) {
  const std::vector<int32_t> text = Prompt(300);
  EXPECT_EQ(RunText(text, 10), 0);
  Lose(0);
  Connect(0);
  EXPECT_EQ(RunText(text, 10), 0);
  EXPECT_GT(RunText(text, 10), 0);
}

// A device that holds one text, and a host that holds several.
class SchedulerHostTest : public SchedulerCacheTest {
 protected:
  SchedulerHostTest()
      : SchedulerCacheTest({.num_pages = 70,
                            .num_slots = 5,
                            .num_host_pages = 600,
                            .num_host_slots = 60}) {}

  HostStatus Host() { return scheduler_.status().workers[0].host; }
  // Until nothing of other texts is on the device.
  void RunOtherTexts() {
    for (int i = 0; i < 4; ++i) RunText(Prompt(500), 10);
  }
};

TEST_F(SchedulerHostTest, AConversationThatWasEvictedGoesOnFromTheHost) {
  std::vector<int32_t> text = Prompt(400);
  EXPECT_EQ(RunText(text, 30), 0);
  for (int turn = 0; turn < 3; ++turn) {
    RunOtherTexts();
    text = Joined(Joined(text, SimulatedOutput(text, 30)), Prompt(20));
    const int64_t hits = Host().num_hits;
    EXPECT_EQ(RunText(text, 30), static_cast<int>(text.size()) - 21) << turn;
    EXPECT_EQ(Host().num_hits, hits + 1) << turn;
  }
  EXPECT_GT(Host().bytes_to_host, Host().bytes_from_host);
  EXPECT_GT(Host().bytes_from_host, 0);
}

// The deepest checkpoint is on the host, and pages before it on the device.
TEST_F(SchedulerHostTest, PagesThatTheDeviceHasAreNotBroughtBack) {
  const std::vector<int32_t> common = Prompt(300);
  const std::vector<int32_t> text = Joined(common, Prompt(100));
  RunText(text, 30);
  RunOtherTexts();
  RunText(Joined(common, Prompt(1)), 1);  // Leaves 300 tokens on the device.

  Reader reader =
      Ask(Joined(Joined(text, SimulatedOutput(text, 30)), Prompt(20)), 1);
  const StepPlan& plan = worker_.next_plan();
  ASSERT_EQ(plan.from_host.slots.size(), 1u);
  EXPECT_GT(plan.from_host.pages.size(), 0u);
  EXPECT_LT(
      plan.from_host.pages.size(),
      static_cast<size_t>(200 / SimulatedWorker::SmallLimits().page_size));
  RunAllAudited();
}

TEST_F(SchedulerHostTest, ARefusedPlanHasLeftNothingOnTheHost) {
  const std::vector<int32_t> text = Prompt(400);
  RunText(text, 10);
  bool refused = false;
  for (int i = 0; i < 4; ++i) {
    Reader other = Ask(Prompt(500), 10);
    while (worker_.has_plan()) {
      if (!refused && !worker_.next_plan().to_host.slots.empty()) {
        refused = true;
        Tell(worker_.Refuse(absl::InvalidArgumentError("no")));
        EXPECT_EQ(Host().num_checkpoints, 0);
      } else {
        RunRound();
      }
      ExpectAudited();
    }
  }
  EXPECT_TRUE(refused);
  const std::vector<int32_t> next = Joined(text, Prompt(20));
  RunText(next, 10);
}

TEST_F(SchedulerHostTest, AnotherConnectionBeginsWithAnEmptyHost) {
  const std::vector<int32_t> text = Prompt(400);
  RunText(text, 10);
  RunOtherTexts();
  EXPECT_GT(Host().num_checkpoints, 0);
  Lose(0);
  EXPECT_EQ(Host().num_checkpoints, 0);
  Connect(0);
  EXPECT_EQ(RunText(Joined(text, Prompt(20)), 10), 0);
}

// Conversations that branch, in memory that holds a few of them.
class RandomConversations : public SchedulerCacheTest {
 protected:
  explicit RandomConversations(const Memory& memory)
      : SchedulerCacheTest(memory) {}

  struct Running {
    std::vector<int32_t> prompt;
    int num_tokens;
    Reader reader;
  };

  void Begin() {
    std::vector<int32_t> prompt = Prompt(UniformInt(rng_, 1, 200));
    if (!texts_.empty() && UniformInt(rng_, 0, 3) > 0) {
      const std::vector<int32_t>& text =
          texts_[UniformInt(rng_, 0, static_cast<int>(texts_.size()) - 1)];
      const int shared = UniformInt(rng_, 0, 2) > 0
                             ? static_cast<int>(text.size())
                             : UniformInt(rng_, 1, text.size());
      prompt = Joined({text.begin(), text.begin() + shared},
                      Prompt(UniformInt(rng_, 1, 40)));
    }
    if (prompt.size() > 600) return texts_.clear();
    const int num_tokens = UniformInt(rng_, 1, 60);
    auto request = MakeRequest(prompt, num_tokens, now_);
    request->tenant = UniformInt(rng_, 0, 1) == 0 ? "" : "other";
    if (UniformInt(rng_, 0, 4) == 0) request->cache_salt = "salt";
    if (UniformInt(rng_, 0, 5) == 0) {
      request->sampling.prompt_logprobs = 0;
    }
    running_.push_back({.prompt = prompt,
                        .num_tokens = num_tokens,
                        .reader = Ask(std::move(request))});
  }

  void Step() {
    const int dice = UniformInt(rng_, 0, 19);
    if (dice < 4 && running_.size() < 8) return Begin();
    if (dice == 4 && !running_.empty()) {
      const int i = UniformInt(rng_, 0, static_cast<int>(running_.size()) - 1);
      running_[i].reader.stream->Cancel();
      Look();
      running_.erase(running_.begin() + i);
      return;
    }
    if (!worker_.has_plan()) return;
    if (dice == 5 && UniformInt(rng_, 0, 3) == 0) {
      Tell(worker_.Refuse(absl::InvalidArgumentError("no")));
    } else if (dice == 6 && UniformInt(rng_, 0, 19) == 0) {
      Lose(0);
      Connect(0);
    } else {
      RunRound();
    }
  }

  void Collect() {
    std::erase_if(running_, [this](Running& one) {
      one.reader.Read();
      if (!one.reader.end) return false;
      if (!one.reader.end->ok()) return true;  // Refused when it ran alone.
      EXPECT_EQ(one.reader.tokens, SimulatedOutput(one.prompt, one.num_tokens));
      ++num_ended_;
      cached_ += (*one.reader.end)->cached_tokens;
      texts_.push_back(Joined(one.prompt, one.reader.tokens));
      if (texts_.size() > 20) texts_.erase(texts_.begin());
      return true;
    });
  }

  void Run(int num_steps) {
    for (int i = 0; i < num_steps && !HasFailure(); ++i) {
      if (worker_.has_plan()) from_host_ += NumFromHost(worker_.next_plan());
      Step();
      Collect();
      ExpectAudited();
    }
  }
  static int64_t NumFromHost(const StepPlan& plan) {
    return std::ssize(plan.from_host.slots);
  }

  std::vector<std::vector<int32_t>> texts_;
  std::vector<Running> running_;
  int num_ended_ = 0;
  int64_t cached_ = 0;
  int64_t from_host_ = 0;  // Slots, as often as plans were seen.
};

class RoomyConversations : public RandomConversations {
 protected:
  RoomyConversations()
      : RandomConversations({.num_pages = 800, .num_slots = 40}) {}
};
class NarrowConversations : public RandomConversations {
 protected:
  NarrowConversations()
      : RandomConversations({.num_pages = 70, .num_slots = 7}) {}
};
class ConversationsWithAHost : public RandomConversations {
 protected:
  ConversationsWithAHost()
      : RandomConversations({.num_pages = 70,
                             .num_slots = 7,
                             .num_host_pages = 500,
                             .num_host_slots = 40}) {}
};
class ConversationsWithANarrowHost : public RandomConversations {
 protected:
  ConversationsWithANarrowHost()
      : RandomConversations({.num_pages = 70,
                             .num_slots = 7,
                             .num_host_pages = 60,
                             .num_host_slots = 4}) {}
};

TEST_F(RoomyConversations, GiveTheTextsOfNoCache) {
  Run(6000);
  EXPECT_GT(num_ended_, 100);
  EXPECT_GT(cached_, 16 * num_ended_);
}

TEST_F(NarrowConversations, GiveTheTextsOfNoCache) {
  Run(6000);
  EXPECT_GT(num_ended_, 50);
  EXPECT_GT(cached_, 0);
  EXPECT_EQ(from_host_, 0);
}

TEST_F(ConversationsWithAHost, GiveTheTextsOfNoCache) {
  Run(6000);
  EXPECT_GT(num_ended_, 50);
  EXPECT_GT(cached_, 10 * num_ended_);
  EXPECT_GT(from_host_, 50);
}

TEST_F(ConversationsWithANarrowHost, GiveTheTextsOfNoCache) {
  Run(6000);
  EXPECT_GT(num_ended_, 50);
  EXPECT_GT(from_host_, 10);
}

}  // namespace
}  // namespace bole
