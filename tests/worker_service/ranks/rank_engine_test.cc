// Engines of several ranks run the same plans: their results are the same, and
// one rank's but for rounding. A rank that fails or stalls ends all of them.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "common/draft_shape.h"
#include "common/ids.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/ranks/on_ranks.h"
#include "tests/worker_service/ranks/random_model.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/draft_head.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing {
namespace {

using Load = std::function<absl::StatusOr<LoadedModel>(Backend&)>;

constexpr int kMaxContext = 256;

// What a rank's engine said, step by step.
using Trace = std::vector<StepResult>;

struct RankRun {
  std::vector<GenerateResult> texts;
  Trace trace;
};

RankRun Generated(const LoadedModel& model, Backend& backend,
                  GenerateOptions options,
                  const std::vector<GenerateRequest>& requests) {
  RankRun run;
  const absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
      model.config, *model.weights, backend,
      EngineOptionsFor(options, kMaxContext, model.num_valid_tokens()));
  EXPECT_TRUE(engine.ok()) << engine.status();
  options.on_step = [&run](const StepPlan&, const StepResult& result) {
    run.trace.push_back(result);
  };
  absl::StatusOr<std::vector<GenerateResult>> texts =
      Generate(**engine, options, requests, {});
  EXPECT_TRUE(texts.ok()) << texts.status();
  if (texts.ok()) run.texts = *std::move(texts);
  return run;
}

// One after the other with the same weights: by option, then by rank.
std::vector<std::vector<RankRun>> RunOn(
    int n, const Load& load, const std::vector<GenerateOptions>& options,
    const std::vector<GenerateRequest>& requests) {
  std::vector<std::vector<RankRun>> runs(options.size(),
                                         std::vector<RankRun>(n));
  OnRanks(n, [&](std::unique_ptr<Communicator> own) {
    const int rank = own->rank().index;
    ReferenceBackend backend(/*num_threads=*/1, std::move(own));
    const absl::StatusOr<LoadedModel> model = load(backend);
    ASSERT_TRUE(model.ok()) << model.status();
    for (size_t i = 0; i < options.size(); ++i) {
      runs[i][rank] = Generated(*model, backend, options[i], requests);
    }
  });
  return runs;
}

std::vector<std::vector<int32_t>> TokensOf(const RankRun& run) {
  std::vector<std::vector<int32_t>> tokens;
  for (const GenerateResult& text : run.texts) {
    std::vector<int32_t>& own = tokens.emplace_back();
    for (const EmittedToken& token : text.output) own.push_back(token.token);
  }
  return tokens;
}

int AcceptedOf(const RankRun& run) {
  int accepted = 0;
  for (const GenerateResult& text : run.texts) accepted += text.accepted_drafts;
  return accepted;
}

// Greedy, drawn, and drawn with penalties and log probabilities.
std::vector<GenerateRequest> Requests(int vocabulary, int max_tokens) {
  std::mt19937 rng(11);
  std::vector<GenerateRequest> requests(3);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t k = 0; k < 20 + 7 * i; ++k) {
      requests[i].prompt.push_back(static_cast<int32_t>(rng() % vocabulary));
    }
    requests[i].sampling.max_tokens = max_tokens;
    requests[i].sampling.temperature = i == 0 ? 0.0f : 0.8f;
    requests[i].sampling.seed = 3 + i;
  }
  requests[2].sampling.presence_penalty = 0.4f;
  requests[2].sampling.frequency_penalty = 0.2f;
  requests[2].sampling.repetition_penalty = 1.2f;
  requests[2].sampling.logprobs = true;
  requests[2].sampling.top_logprobs = 3;
  return requests;
}

// Speculation off, a chain, a tree, and a tree in leases.
std::vector<GenerateOptions> AllSpeculations() {
  const DraftShape chain{.top_k = 1, .depth = 3};
  const DraftShape tree{.top_k = 3, .depth = 3};
  return {{.draft = std::nullopt, .max_batch = 2},
          {.draft = chain, .max_nodes_per_tree = 4, .max_batch = 2},
          {.draft = tree, .max_nodes_per_tree = 12, .max_batch = 2},
          {.draft = tree,
           .max_nodes_per_tree = 12,
           .max_batch = 3,
           .lease_rounds = 4}};
}

// With `accepts_drafts` at least one draft must have been accepted, so that
// paths longer than a token are committed.
void ExpectRanksAgree(const Load& load, int vocabulary,
                      const std::vector<int>& counts, bool accepts_drafts) {
  const std::vector<GenerateRequest> requests = Requests(vocabulary, 40);
  const std::vector<GenerateOptions> speculations = AllSpeculations();
  // Rounding could change a token only where two are nearly equally likely,
  // which does not happen in these texts; the logits are compared in
  // rank_forward_test.cc.
  const std::vector<std::vector<int32_t>> want =
      TokensOf(RunOn(1, load, {speculations[0]}, requests)[0][0]);
  for (const int n : counts) {
    const auto runs = RunOn(n, load, speculations, requests);
    for (size_t i = 0; i < runs.size(); ++i) {
      SCOPED_TRACE("speculation " + std::to_string(i) + " on " +
                   std::to_string(n) + " ranks");
      EXPECT_EQ(TokensOf(runs[i][0]), want);
      if (accepts_drafts && speculations[i].draft) {
        EXPECT_GT(AcceptedOf(runs[i][0]), 0);
      }
      for (const RankRun& run : runs[i]) {
        ASSERT_FALSE(run.trace.empty());
        EXPECT_TRUE(run.trace == runs[i][0].trace);
      }
    }
  }
}

TEST(RankEngineTest, ADenseModelWritesTheTextOfOneRankHoweverItSpeculates) {
  const RandomModel model(SmallDenseConfig(), 1);
  ExpectRanksAgree([&](Backend& backend) { return model.Load(backend); }, 1300,
                   {2, 4}, /*accepts_drafts=*/false);
}

TEST(RankEngineTest, AMixtureOfExpertsWritesTheTextOfOneRank) {
  const RandomModel model(SmallMoeConfig(), 3);
  ExpectRanksAgree([&](Backend& backend) { return model.Load(backend); }, 1300,
                   {2, 4}, /*accepts_drafts=*/false);
}

TEST(RankEngineTest, WhatASyntheticModelDraftsIsAcceptedOnTwoRanks) {
  for (const std::string name :
       {"synthetic:tiny,noise=1", "synthetic:tiny-moe,noise=1"}) {
    SCOPED_TRACE(name);
    ExpectRanksAgree([&](Backend& backend) { return LoadModel(name, backend); },
                     2048, {2}, /*accepts_drafts=*/true);
  }
}

TEST(RankEngineTest, TheDemoWritesTheTextOfOneRankOnTwo) {
  ExpectRanksAgree(
      [](Backend& backend) { return LoadModel("models/demo", backend); }, 8000,
      {2}, /*accepts_drafts=*/true);
}

// Proposed tokens are the best of all ranks' listed tokens, not of one's own.
TEST(RankEngineTest, DraftsOfAListAreThoseOfOneRank) {
  const RandomModel model(SmallDenseConfig(), 4);
  std::vector<int32_t> listed;
  for (int32_t token = 3; token < 1290; token += 7) listed.push_back(token);
  const Load load = [&](Backend& backend) -> absl::StatusOr<LoadedModel> {
    absl::StatusOr<LoadedModel> loaded = model.Load(backend);
    if (!loaded.ok()) return loaded;
    absl::Status status = RestrictDraftHead(listed, backend, *loaded->weights);
    if (!status.ok()) return status;
    return loaded;
  };
  const auto proposals = [&](int n) {
    const auto runs =
        RunOn(n, load, {AllSpeculations()[2]}, Requests(1300, 20));
    std::vector<std::vector<int32_t>> tokens;
    for (const StepResult& step : runs[0][n - 1].trace) {
      for (const SequenceResult& result : step.sequences) {
        if (result.proposal) tokens.push_back(result.proposal->token);
      }
    }
    return tokens;
  };

  const std::vector<std::vector<int32_t>> want = proposals(1);

  ASSERT_GT(want.size(), 10u);
  EXPECT_EQ(proposals(2), want);
  EXPECT_EQ(proposals(4), want);
}

// An engine of two ranks whose backend may have a fault, and a plan for it.
struct RankEngine {
  RankEngine(const RandomModel& random, Backend& backend) {
    absl::StatusOr<LoadedModel> loaded = random.Load(backend);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    model = *std::move(loaded);
    const GenerateOptions options = {.draft = std::nullopt};
    absl::StatusOr<std::unique_ptr<Engine>> created = Engine::Create(
        model.config, *model.weights, backend,
        EngineOptionsFor(options, kMaxContext, model.num_valid_tokens()));
    EXPECT_TRUE(created.ok()) << created.status();
    engine = *std::move(created);
  }

  // The chunk of a prompt.
  absl::Status Step(const std::vector<int32_t>& prompt = {1, 2, 3}) {
    PrefillPlan prefill{
        .sequence = {.slot = SlotId(0),
                     .prompt_length = static_cast<int32_t>(prompt.size())},
        .tokens = prompt};
    for (int i = 0; i < engine->limits().num_pages; ++i) {
      prefill.sequence.pages.emplace_back(i);
    }
    StepPlan plan;
    plan.prefills.push_back(std::move(prefill));
    return engine->Step(plan).status();
  }

  LoadedModel model;
  std::unique_ptr<Engine> engine;
};

class BrokenBackend final : public ReferenceBackend {
 public:
  explicit BrokenBackend(std::unique_ptr<Communicator> ranks)
      : ReferenceBackend(/*num_threads=*/1, std::move(ranks)) {}

  absl::Status Attend(const AttentionParams& params) override {
    if (is_broken) return absl::InternalError("an illegal address");
    return ReferenceBackend::Attend(params);
  }

  bool is_broken = false;
};

TEST(RankEngineTest, ARankThatFailsEndsTheOthersStepsAtOnce) {
  const RandomModel random(SmallDenseConfig(), 6);
  const auto begin = std::chrono::steady_clock::now();
  OnRanks(2, [&](std::unique_ptr<Communicator> own) {
    const int rank = own->rank().index;
    BrokenBackend backend(std::move(own));
    RankEngine ranks(random, backend);
    EXPECT_TRUE(ranks.Step().ok());

    backend.is_broken = rank == 1;
    const absl::Status status = ranks.Step();

    EXPECT_EQ(status, rank == 1
                          ? absl::InternalError("an illegal address")
                          : absl::UnavailableError(
                                "rank 1 of 2 has left: an illegal address"));
    backend.is_broken = false;
    EXPECT_EQ(ranks.Step(), status);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kNoDeadline / 4);
}

TEST(RankEngineTest, ARankThatStallsIsNamedWithinTheDeadline) {
  // Long enough for both ranks to load their weights on a busy machine.
  static constexpr std::chrono::milliseconds kDeadline{5000};
  const RandomModel random(SmallDenseConfig(), 6);
  std::promise<void> told;
  OnRanks(
      2,
      [&](std::unique_ptr<Communicator> own) {
        const int rank = own->rank().index;
        ReferenceBackend backend(/*num_threads=*/1, std::move(own));
        RankEngine ranks(random, backend);
        EXPECT_TRUE(ranks.Step().ok());
        if (rank == 1) {
          // The plan reaches it too late.
          told.get_future().wait();
          EXPECT_TRUE(absl::IsDeadlineExceeded(ranks.Step()));
          return;
        }
        const auto begin = std::chrono::steady_clock::now();
        const absl::Status status = ranks.Step();
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 2 * kDeadline);
        EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
        EXPECT_TRUE(absl::StartsWith(status.message(), "rank 1 of 2 did not"))
            << status;
        told.set_value();
      },
      kDeadline);
}

// Plans that differ are found out at the first call whose size differs.
TEST(RankEngineTest, RanksWithDifferentPlansAreAnError) {
  const RandomModel random(SmallDenseConfig(), 6);
  OnRanks(2, [&](std::unique_ptr<Communicator> own) {
    const int rank = own->rank().index;
    ReferenceBackend backend(/*num_threads=*/1, std::move(own));
    RankEngine ranks(random, backend);

    const absl::Status status =
        rank == 0 ? ranks.Step({1, 2}) : ranks.Step({1, 2, 3});

    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_TRUE(absl::StartsWith(status.message(), "ranks diverged in call 0"))
        << status;
  });
}

}  // namespace
}  // namespace bole::testing
