// Conversations with and without a prefix cache, on the demo model: the same
// ids and text at every hit, whatever is drafted.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/policy/policy_options.h"
#include "scheduler_service/policy/speculation.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"
#include "tests/testing/exhaustive.h"
#include "tests/worker_service/eval/demo_model.h"

namespace bole::e2e {
namespace {

constexpr int kTokens = 12;  // Of every answer.
constexpr size_t kAtATime = 8;

SystemOptions With(bool cache, SpeculationMode mode) {
  SystemOptions options;
  options.engine.num_slots = 40;
  options.engine.num_pages = 400;
  options.scheduler.prefix_cache = cache;
  options.scheduler.policy =
      mode == SpeculationMode::kOff ? PolicyKind::kOff : PolicyKind::kFixed;
  options.scheduler.speculation.mode = mode;
  return options;
}

// All of them, or the first ones that fill two batches. The longest are cut.
std::vector<std::string> Prompts() {
  auto prompts = testing_support::ReadGoldenJson("mat.json")["prompts"]
                     .get<std::vector<std::string>>();
  if (!testing::Exhaustive()) prompts.resize(2 * kAtATime);
  for (std::string& prompt : prompts) {
    prompt.resize(std::min<size_t>(prompt.size(), 400));
  }
  return prompts;
}

v1::GenerateRequest RequestFor(size_t i, const std::string& text) {
  v1::GenerateRequest request = GreedyRequest(text, kTokens);
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  sampling.set_seed(i);
  if (i % 2 == 1) sampling.set_temperature(0.8f);
  if (i % 4 > 1) {
    sampling.set_presence_penalty(0.6f);
    sampling.set_repetition_penalty(1.2f);
  }
  return request;
}

// Answers by the number of their prompt.
struct Answers {
  explicit Answers(size_t count) : of(count) {}

  std::vector<Generation> of;
  uint32_t cached_tokens = 0;
};

// Those of kAtATime texts from the first-th on, together. Some are cancelled
// after their first tokens, and asked again.
void Ask(System& system, const std::vector<std::string>& texts, size_t first,
         Answers& answers) {
  std::vector<std::thread> clients;
  for (size_t i = first; i < first + kAtATime; ++i) {
    clients.emplace_back([&, i] {
      const v1::GenerateRequest request = RequestFor(i, texts[i]);
      if (i % 3 == 0) {
        Call call(system.stub(), request);
        EXPECT_TRUE(call.Read());
        call.Cancel();
        call.Finish();
      }
      answers.of[i] = Generate(system.stub(), request);
    });
  }
  for (std::thread& client : clients) client.join();
  for (size_t i = first; i < first + kAtATime; ++i) {
    const Generation& one = answers.of[i];
    ASSERT_TRUE(one.status.ok()) << one.status.error_message();
    answers.cached_tokens += one.complete->usage().cached_tokens();
  }
}

void ExpectEqual(const Answers& got, const Answers& want) {
  for (size_t i = 0; i < want.of.size(); ++i) {
    EXPECT_EQ(got.of[i].ids(), want.of[i].ids()) << "prompt " << i;
    EXPECT_EQ(got.of[i].text(), want.of[i].text()) << "prompt " << i;
  }
}

// What the worker kept is gone.
void RestartWorker(System& system) {
  system.StopWorker();
  system.StartWorker();
  EXPECT_TRUE(Eventually([&] { return system.loop().status().connected(); }));
}

TEST(E2eCacheTest, TextsAreThoseOfNoCache) {
  const std::vector<std::string> prompts = Prompts();
  std::vector<std::string> longer = prompts;
  Answers first(prompts.size());
  Answers second(prompts.size());
  {
    System plain(With(/*cache=*/false, SpeculationMode::kOff));
    for (size_t at = 0; at < prompts.size(); at += kAtATime) {
      Ask(plain, prompts, at, first);
      for (size_t i = at; i < at + kAtATime; ++i) {
        longer[i] += first.of[i].text() + "\n# Then\n";
      }
      Ask(plain, longer, at, second);
    }
    EXPECT_EQ(first.cached_tokens + second.cached_tokens, 0u);
  }
  for (const SpeculationMode mode :
       {SpeculationMode::kOff, SpeculationMode::kChain,
        SpeculationMode::kTree}) {
    SCOPED_TRACE(static_cast<int>(mode));
    System system(With(/*cache=*/true, mode));
    Answers one(prompts.size());
    Answers other(prompts.size());
    Answers moved(prompts.size());
    for (size_t at = 0; at < prompts.size(); at += kAtATime) {
      Ask(system, prompts, at, one);
      Ask(system, longer, at, other);
      if (at == kAtATime) RestartWorker(system);
      Ask(system, longer, at, moved);
    }

    ExpectEqual(one, first);
    ExpectEqual(other, second);
    ExpectEqual(moved, second);
    EXPECT_GT(other.cached_tokens, 16 * prompts.size());
    // The second batch finds a worker that knows nothing.
    EXPECT_GT(moved.cached_tokens, 8 * prompts.size());
    system.ExpectIdle();
  }
}

}  // namespace
}  // namespace bole::e2e
