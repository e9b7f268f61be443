// Synthetic models: real layers, drafter, trees and sampling over a text whose
// every token is known.
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "worker_service/engine.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loaded_model.h"
#include "worker_service/model/markov_chain.h"

namespace bole {
namespace {

constexpr int kVocabulary = 2048;
constexpr double kEntropy = 0.5;

class SyntheticTest : public ::testing::Test {
 protected:
  void Load(const std::string& name) {
    auto model = LoadModel(name, backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  std::vector<GenerateResult> Run(const GenerateOptions& options,
                                  const std::vector<int32_t>& first_tokens,
                                  const SamplingParams& sampling) {
    std::vector<GenerateRequest> requests;
    for (const int32_t token : first_tokens) {
      requests.push_back({.prompt = {1, 2, 3, token},
                          .sampling = sampling,
                          .stop_tokens = {}});
      requests.back().sampling.seed = token;
    }
    auto engine =
        Engine::Create(model_.config, *model_.weights, backend_,
                       EngineOptionsFor(options, 4 + *sampling.max_tokens,
                                        model_.num_valid_tokens()));
    EXPECT_TRUE(engine.ok()) << engine.status();
    auto results = Generate(**engine, options, requests, nullptr);
    EXPECT_TRUE(results.ok()) << results.status();
    return *std::move(results);
  }

  static SamplingParams Sampling(int max_tokens, float temperature) {
    SamplingParams sampling;
    sampling.max_tokens = max_tokens;
    sampling.temperature = temperature;
    return sampling;
  }

  static GenerateOptions Tree() {
    return {.draft = DraftShape{.top_k = 4, .depth = 8},
            .max_nodes_per_tree = 64,
            .max_batch = 4};
  }

  ReferenceBackend backend_{/*num_threads=*/2};
  LoadedModel model_;
};

TEST_F(SyntheticTest, GreedyTextFollowsTheChain) {
  for (const char* name :
       {"synthetic:tiny,seed=5", "synthetic:tiny-moe,seed=5"}) {
    Load(name);
    const MarkovChain chain = MakeMarkovChain(kVocabulary, kEntropy, 5);

    const auto results = Run({.draft = std::nullopt}, {17}, Sampling(50, 0));

    int32_t token = 17;
    for (const EmittedToken& emitted : results[0].output) {
      token = chain.Successor(token, 0);
      ASSERT_EQ(emitted.token, token) << name;
      // All that is not a successor takes a few thousandths at most, and the
      // layers move a logarithm by a tenth or so.
      EXPECT_NEAR(emitted.logprob, std::log(chain.probability[0]), 0.3);
    }
  }
}

TEST_F(SyntheticTest, SampledTextHasTheProbabilitiesOfTheChain) {
  Load("synthetic:tiny,noise=0,entropy=1.2");
  const MarkovChain chain = MakeMarkovChain(kVocabulary, 1.2, 1);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 8; ++i) tokens.push_back(100 * i);

  const auto results = Run(Tree(), tokens, Sampling(150, 1));

  std::array<int, kSuccessors> count = {};
  for (size_t i = 0; i < results.size(); ++i) {
    int32_t token = tokens[i];
    for (const EmittedToken& emitted : results[i].output) {
      const int m = emitted.token ^ chain.Successor(token, 0);
      token = emitted.token;
      // A token outside of the group has a probability of e^-7.5 or less, 0.7
      // of them in 1,200 tokens.
      if (m < kSuccessors) ++count[m];
    }
  }
  const int total = 8 * 150;
  for (int m = 0; m < kSuccessors; ++m) {
    const double p = chain.probability[m];
    // Four deviations, and the little that layers add.
    EXPECT_NEAR(count[m], total * p, 4 * std::sqrt(total * p * (1 - p)) + 12)
        << m;
  }
}

TEST_F(SyntheticTest, AcceptsAsManyTokensAsWereAskedFor) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < 16; ++i) tokens.push_back(123 * i);
  for (const char* accept : {"4", "6.9"}) {
    Load(std::string("synthetic:tiny,accept=") + accept);
    int rounds = 0;
    int emitted = 0;
    GenerateOptions options = Tree();
    options.on_step = [&](const StepPlan& plan, const StepResult& result) {
      for (size_t i = 0; i < plan.sequences.size(); ++i) {
        // A request's last rounds may be cut off.
        if (plan.sequences[i].max_new_tokens < 9) continue;
        ++rounds;
        emitted += static_cast<int>(result.sequences[i].emitted.size());
      }
    };

    Run(options, tokens, Sampling(150, 0));

    // About 330 rounds or more that deviate by 3 each: 0.17, three times over.
    EXPECT_NEAR(static_cast<double>(emitted) / rounds, std::stod(accept), 0.5);
  }
}

TEST_F(SyntheticTest, SpeculationDoesNotShow) {
  Load("synthetic:tiny,accept=5");

  const auto plain = Run({.draft = std::nullopt}, {9}, Sampling(60, 1));
  const auto tree = Run(Tree(), {9}, Sampling(60, 1));

  for (size_t i = 0; i < plain[0].output.size(); ++i) {
    ASSERT_EQ(plain[0].output[i].token, tree[0].output[i].token) << i;
  }
  EXPECT_LT(tree[0].rounds, plain[0].rounds);
}

TEST_F(SyntheticTest, ASeedIsAModel) {
  Load("synthetic:tiny,noise=0");
  const auto first = Run({.draft = std::nullopt}, {9}, Sampling(5, 0));
  Load("synthetic:tiny,noise=0");
  const auto again = Run({.draft = std::nullopt}, {9}, Sampling(5, 0));
  Load("synthetic:tiny,noise=0,seed=2");
  const auto other = Run({.draft = std::nullopt}, {9}, Sampling(5, 0));

  EXPECT_EQ(first[0].output, again[0].output);
  EXPECT_NE(first[0].output, other[0].output);
}

TEST_F(SyntheticTest, NamesThatCannotBeLoadedAreRefused) {
  EXPECT_FALSE(LoadModel("synthetic:10B", backend_).ok());
  EXPECT_FALSE(CheckModelName("synthetic:9B,accept=0").ok());
  EXPECT_FALSE(CheckModelName("no/such/folder").ok());
  EXPECT_TRUE(CheckModelName("synthetic:397B-A17B").ok());
  EXPECT_EQ(ModelName("synthetic:9B,seed=2"), "synthetic:9B,seed=2");
}

}  // namespace
}  // namespace bole
