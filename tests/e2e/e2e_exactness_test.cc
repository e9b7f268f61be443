// What comes out of the two services is what the engine gives offline, whatever
// speculates and whoever is in the batch.
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"
#include "tests/testing/exhaustive.h"
#include "tests/worker_service/eval/demo_model.h"

namespace bole::e2e {
namespace {

using testing_support::DemoModel;
using testing_support::ReadGoldenJson;

// The closed form and the recurrence round differently; the layers above pass
// it on.
constexpr float kLogprobTolerance = 1e-4f;
constexpr float kTemperature = 0.8f;
constexpr float kTopP = 0.95f;

struct Case {
  SpeculationMode mode;
  int seed;  // 0: greedy.

  friend void PrintTo(const Case& c, std::ostream* out) {
    constexpr const char* kNames[] = {"off", "chain", "tree"};
    *out << kNames[static_cast<int>(c.mode)] << ", seed " << c.seed;
  }
};

constexpr int kMaxTokens = 48;

constexpr size_t kQuarters = 4;

// Which prompts a seed sends: in an exhaustive run all of them, else a quarter,
// another one for each seed.
std::vector<size_t> PromptsOf(int seed, size_t num_prompts) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < num_prompts; ++i) {
    if (testing::Exhaustive() || i % kQuarters == seed % kQuarters) {
      chosen.push_back(i);
    }
  }
  return chosen;
}

// Sending one at a time is what takes longest, so a quarter of them is sent so.
std::vector<size_t> AQuarter(const std::vector<size_t>& prompts) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < prompts.size(); i += kQuarters) {
    chosen.push_back(prompts[i]);
  }
  return chosen;
}

// What the engine gives offline, one at a time, without speculation, by prompt.
const std::map<size_t, GenerateResult>& Offline(
    int seed, const std::vector<size_t>& chosen) {
  static std::map<int, std::map<size_t, GenerateResult>> results;
  const auto [it, is_new] = results.try_emplace(seed);
  if (!is_new) return it->second;
  DemoModel& demo = DemoModel::Get();
  const std::vector<std::vector<int32_t>> prompts = demo.Prompts();
  std::vector<GenerateRequest> requests;
  for (const size_t i : chosen) {
    GenerateRequest request{.prompt = prompts[i],
                            .sampling = {},
                            .stop_tokens = demo.model().stop_tokens};
    request.sampling.temperature = seed == 0 ? 0 : kTemperature;
    request.sampling.top_p = kTopP;
    request.sampling.seed = seed;
    request.sampling.max_tokens = kMaxTokens;
    requests.push_back(request);
  }
  std::vector<GenerateResult> texts =
      demo.Run(testing_support::Off(1), requests);
  for (size_t i = 0; i < chosen.size(); ++i) {
    it->second.emplace(chosen[i], std::move(texts[i]));
  }
  return it->second;
}

v1::GenerateRequest OnlineRequest(const std::string& prompt, int seed) {
  v1::GenerateRequest request;
  request.set_text(prompt);
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  sampling.set_temperature(seed == 0 ? 0 : kTemperature);
  sampling.set_top_p(kTopP);
  sampling.set_top_k(0);
  sampling.set_seed(seed);
  sampling.set_max_tokens(kMaxTokens);
  sampling.set_logprobs(0);
  return request;
}

void ExpectEqual(const Generation& got, const GenerateResult& want) {
  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  const std::vector<int32_t> tokens = testing_support::Tokens(want);
  ASSERT_EQ(got.ids(), tokens);
  const Tokenizer& tokenizer = *DemoModel::Get().model().tokenizer;
  const std::string text =
      tokenizer.Decode(tokens, /*skip_special_tokens=*/true);
  EXPECT_EQ(got.text(), text);
  const std::vector<v1::TokenLogprob> logprobs = got.logprobs();
  ASSERT_EQ(logprobs.size(), tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const v1::TokenLogprob& logprob = logprobs[i];
    EXPECT_EQ(logprob.token_id(), tokens[i]);
    EXPECT_NEAR(logprob.logprob(), want.output[i].logprob, kLogprobTolerance)
        << "token " << i;
  }
}

std::vector<Generation> RunAll(System& system,
                               const std::vector<std::string>& prompts,
                               const std::vector<size_t>& chosen, int seed,
                               int at_a_time) {
  std::vector<Generation> generations(chosen.size());
  std::vector<std::thread> clients;
  clients.reserve(at_a_time);
  for (int client = 0; client < at_a_time; ++client) {
    clients.emplace_back([&, client] {
      for (size_t i = client; i < chosen.size(); i += at_a_time) {
        generations[i] =
            Generate(system.stub(), OnlineRequest(prompts[chosen[i]], seed));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  return generations;
}

class E2eExactnessTest : public ::testing::TestWithParam<Case> {};

TEST_P(E2eExactnessTest, ServicesGiveWhatTheEngineGivesOffline) {
  const auto [mode, seed] = GetParam();
  const auto prompts =
      ReadGoldenJson("mat.json")["prompts"].get<std::vector<std::string>>();
  const std::vector<size_t> all = PromptsOf(seed, prompts.size());
  const std::map<size_t, GenerateResult>& want = Offline(seed, all);
  SystemOptions options;
  options.scheduler.speculation = {
      .mode = mode,
      .shape = {.top_k = 4, .depth = mode == SpeculationMode::kChain ? 3 : 8},
      .nodes = 33};
  System system(options);

  for (const int at_a_time : {1, 8}) {
    SCOPED_TRACE(at_a_time);
    const std::vector<size_t> chosen = at_a_time == 1 ? AQuarter(all) : all;
    const std::vector<Generation> got =
        RunAll(system, prompts, chosen, seed, at_a_time);

    int rounds = 0;
    int tokens = 0;
    for (size_t i = 0; i < chosen.size(); ++i) {
      SCOPED_TRACE(chosen[i]);
      ExpectEqual(got[i], want.at(chosen[i]));
      rounds += got[i].complete->speculation().rounds();
      tokens += static_cast<int>(want.at(chosen[i]).output.size());
    }
    // The first token of each belongs to no round.
    const int num_prompts = static_cast<int>(chosen.size());
    if (mode == SpeculationMode::kOff) {
      EXPECT_EQ(rounds, tokens - num_prompts);
    } else {
      EXPECT_LT(rounds * 3 / 2, tokens - num_prompts);
    }
  }
  system.ExpectIdle();
}

std::vector<Case> Cases() {
  const int num_seeds = testing::Exhaustive() ? 4 : 2;
  std::vector<Case> cases;
  for (const SpeculationMode mode :
       {SpeculationMode::kOff, SpeculationMode::kChain,
        SpeculationMode::kTree}) {
    for (int seed = 0; seed < num_seeds; ++seed) cases.push_back({mode, seed});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(ModesAndSeeds, E2eExactnessTest,
                         ::testing::ValuesIn(Cases()));

}  // namespace
}  // namespace bole::e2e
