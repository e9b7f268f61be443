// Requests that need all the memory that a worker has, or almost all.
#include <chrono>
#include <cstdint>
#include <ostream>
#include <vector>

#include "gtest/gtest.h"
#include "tests/scheduler_service/asked.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

using ::bole::testing::Asked;
using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedOutput;
using ::bole::testing::SimulatedWorker;
using ::bole::testing::UniformInt;
using ::std::chrono::milliseconds;

// A tree of 32 nodes, top-k 4 and depth 8, as both services have by default.
class NearlyFullTest : public SchedulerTest {
 protected:
  static StepLimits Limits() {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.max_nodes = 512;
    limits.max_nodes_per_tree = 128;
    limits.max_prefill_tokens = 512;
    limits.max_draft = {.top_k = 4, .depth = 8};
    limits.num_pages = 16;
    limits.page_size = 64;
    limits.max_context = 8192;
    return limits;
  }
  NearlyFullTest() : SchedulerTest(SchedulerOptions{}, Limits()) {
    Tell(worker_.Connect());
  }
};

TEST_F(NearlyFullTest, ALoneRequestEndsWithItsText) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 960);

  Reader reader = Ask(prompt, 20);
  RunAll();

  ExpectOutput(reader, SimulatedOutput(prompt, 20));
  ExpectAllFree();
}

// 1,024 rows, of which the drafter needs 29.
TEST_F(NearlyFullTest, WhatFitsIsKnownToTheToken) {
  const std::vector<int32_t> prompt = RandomPrompt(rng_, 970);

  Reader fits = Ask(prompt, 25);
  RunAll();
  Reader exceeds = Ask(prompt, 26);

  ExpectOutput(fits, SimulatedOutput(prompt, 25));
  ExpectEnd(exceeds, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(exceeds.end->status().message(),
            "prompt and max_tokens are 996 tokens and need 17 pages of KV "
            "memory, of which the worker has 16; ask for fewer tokens");
  ExpectAllFree();
}

struct Pool {
  SpeculationMode mode;
  int seed;

  friend void PrintTo(const Pool& pool, std::ostream* out) {
    *out << "mode " << static_cast<int>(pool.mode) << ", seed " << pool.seed;
  }
};

// A few pages, of a size at random.
class TinyPoolTest : public SchedulerTest,
                     public ::testing::WithParamInterface<Pool> {
 protected:
  static StepLimits Limits() {
    std::mt19937 rng(GetParam().seed);
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.page_size = UniformInt(rng, 1, 40);
    const int rows = UniformInt(rng, 40, 300);
    limits.num_pages = (rows + limits.page_size - 1) / limits.page_size;
    limits.num_slots = UniformInt(rng, 1, 4);
    limits.max_lease_rounds = UniformInt(rng, 1, 4);
    limits.max_context = UniformInt(rng, 30, 300);
    return limits;
  }
  static SchedulerOptions Options() {
    SchedulerOptions options = testing::TreeOptions();
    options.speculation.mode = GetParam().mode;
    return options;
  }
  TinyPoolTest() : SchedulerTest(Options(), Limits()) {
    rng_.seed(GetParam().seed);
    Tell(worker_.Connect());
  }

  // Prompt and output of a request that just fits, or almost.
  int LargestLength() const {
    const StepLimits limits = Limits();
    const bool off = GetParam().mode == SpeculationMode::kOff;
    const int top_k = GetParam().mode == SpeculationMode::kChain ? 1 : 3;
    const int drafted = off ? 0 : 1 + 3 * top_k;
    return std::min(limits.num_pages * limits.page_size - drafted,
                    limits.max_context);
  }

  void AskOne() {
    const int length =
        LargestLength() - UniformInt(rng_, 0, 1) * UniformInt(rng_, 0, 20);
    const int max_tokens = UniformInt(rng_, 1, length - 1);
    Asked asked{.prompt = RandomPrompt(rng_, length - max_tokens),
                .max_tokens = max_tokens,
                .reader = {}};
    asked.reader = Ask(asked.prompt, asked.max_tokens);
    asked_.push_back(std::move(asked));
  }

  std::vector<Asked> asked_;
};

TEST_P(TinyPoolTest, EveryRequestEndsWithItsText) {
  for (int i = 0; i < 8; ++i) {
    now_ += milliseconds(UniformInt(rng_, 0, 1));
    AskOne();
    const int rounds = UniformInt(rng_, 0, 30);
    for (int round = 0; round < rounds && worker_.has_plan(); ++round) {
      RunRound();
      ASSERT_EQ(scheduler_.status().audit, "");
    }
  }
  RunAll();

  ExpectAllFree();
  EXPECT_TRUE(worker_.disconnected().ok()) << worker_.disconnected();
  for (Asked& asked : asked_) {
    ExpectOutput(asked.reader, SimulatedOutput(asked.prompt, asked.max_tokens));
  }
}

TEST_P(TinyPoolTest, OneTokenMoreIsRefused) {
  const std::vector<int32_t> prompt =
      RandomPrompt(rng_, LargestLength() / 2 + 1);

  Reader reader =
      Ask(prompt, LargestLength() + 1 - static_cast<int>(prompt.size()));

  ExpectEnd(reader, absl::StatusCode::kInvalidArgument);
  ExpectAllFree();
}

std::vector<Pool> Pools() {
  std::vector<Pool> pools;
  for (const SpeculationMode mode :
       {SpeculationMode::kOff, SpeculationMode::kChain,
        SpeculationMode::kTree}) {
    for (int seed = 1; seed <= 8; ++seed) pools.push_back({mode, seed});
  }
  return pools;
}

INSTANTIATE_TEST_SUITE_P(ModesAndSeeds, TinyPoolTest,
                         ::testing::ValuesIn(Pools()));

}  // namespace
}  // namespace bole
