// Synthetic models: real layers, drafter, trees and sampling over a text whose
// every token is known.
#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/acceptance_profile.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/draft_head.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/model/markov_chain.h"

namespace bole {
namespace {

constexpr int kVocabulary = 2048;

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

// At a branch either of the two likeliest follows.
TEST_F(SyntheticTest, GreedyTextFollowsTheChain) {
  for (const char* name :
       {"synthetic:tiny,seed=5,noise=1", "synthetic:tiny-moe,seed=5,noise=1"}) {
    Load(name);
    const MarkovChain chain =
        MakeMarkovChain({.num_tokens = kVocabulary, .seed = 5});

    const auto results = Run({.draft = std::nullopt}, {17}, Sampling(100, 0));

    int32_t token = 17;
    int branches = 0;
    for (const EmittedToken& emitted : results[0].output) {
      const bool is_branch = IsBranch(chain.code, token);
      const int m = emitted.token ^ chain.Successor(token, 0);
      ASSERT_LT(m, is_branch ? 2 : 1) << name << ": after " << token;
      const double p = is_branch
                           ? (chain.probability[0] + chain.probability[1]) / 2
                           : chain.probability[0];
      // All that is not a successor takes a hundredth at most, and the layers
      // move a logarithm by a tenth or so.
      EXPECT_NEAR(emitted.logprob, std::log(p), 0.4) << token;
      branches += is_branch ? 1 : 0;
      token = emitted.token;
    }
    EXPECT_GT(branches, 0);
  }
}

// At a low temperature nothing but the branches is left to the seed.
TEST_F(SyntheticTest, TextsPartAtBranches) {
  Load("synthetic:tiny,noise=1");
  const MarkovChain chain = MakeMarkovChain({.num_tokens = kVocabulary});
  SamplingParams sampling = Sampling(100, 0.2f);
  std::vector<GenerateRequest> requests;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    sampling.seed = seed;
    requests.push_back(
        {.prompt = {1, 2, 17}, .sampling = sampling, .stop_tokens = {}});
  }
  const GenerateOptions options{.draft = std::nullopt, .max_batch = 4};
  auto engine =
      Engine::Create(model_.config, *model_.weights, backend_,
                     EngineOptionsFor(options, 103, model_.num_valid_tokens()));
  ASSERT_TRUE(engine.ok()) << engine.status();

  const auto results = Generate(**engine, options, requests, nullptr);

  ASSERT_TRUE(results.ok()) << results.status();
  std::set<int32_t> last;
  for (const GenerateResult& result : *results) {
    last.insert(result.output.back().token);
    for (size_t i = 1; i < result.output.size(); ++i) {
      const int32_t before = result.output[i - 1].token;
      const int m = result.output[i].token ^ chain.Successor(before, 0);
      ASSERT_LT(m, IsBranch(chain.code, before) ? 2 : 1) << "after " << before;
    }
  }
  EXPECT_GT(last.size(), 1u);
}

TEST_F(SyntheticTest, SampledTextHasTheProbabilitiesOfTheChain) {
  Load("synthetic:tiny,noise=0,spread=0,entropy=1.2");
  const MarkovChain chain =
      MakeMarkovChain({.num_tokens = kVocabulary, .entropy = 1.2});
  std::vector<int32_t> tokens;
  tokens.reserve(8);
  for (int i = 0; i < 8; ++i) tokens.push_back(100 * i);

  const auto results = Run(Tree(), tokens, Sampling(150, 1));

  std::array<int, kSuccessors> count = {};
  for (size_t i = 0; i < results.size(); ++i) {
    int32_t token = tokens[i];
    for (const EmittedToken& emitted : results[i].output) {
      const int m = emitted.token ^ chain.Successor(token, 0);
      token = emitted.token;
      // Tokens outside of the group together have a probability of e^-5 or
      // less, that is less than 8 of 1,200.
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
  const std::string name = "synthetic:tiny,accept=6.9";
  Load(name);
  ASSERT_TRUE(SetDraftHead(name, DraftHead::kListed, backend_, model_).ok());
  std::vector<int32_t> tokens;
  tokens.reserve(32);
  for (int i = 0; i < 32; ++i) tokens.push_back(61 * i);
  GenerateOptions options = Tree();
  options.max_batch = 8;

  const AcceptanceProfile profile =
      ProfileOf(UncutRounds(Run(options, tokens, Sampling(60, 0.2f))));

  // About 230 rounds that deviate by 2.5, and the noise of the layers.
  EXPECT_NEAR(profile.mean, 6.9, 0.55) << Summary(profile);
}

TEST_F(SyntheticTest, WhatCannotBeAcceptedIsRefused) {
  const auto model =
      LoadModel("synthetic:tiny,accept=8.9,outside=0.2", backend_);

  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(model.status().message().find("accept is 8.9, but"),
            std::string::npos)
      << model.status();
}

TEST_F(SyntheticTest, SpeculationDoesNotShow) {
  Load("synthetic:tiny,noise=1");

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
