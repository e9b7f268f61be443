// A drafter with weights of 7 bits writes what one with full weights writes,
// and is right nearly as often.
#include "worker_service/draft_weights.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/draft_head.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loaded_model.h"

namespace bole::testing_support {
namespace {

constexpr int kTokens = 48;

std::vector<GenerateRequest> Requests(float temperature) {
  DemoModel& demo = DemoModel::Get();
  const std::vector<std::vector<int32_t>> prompts = demo.Prompts();
  std::vector<GenerateRequest> requests;
  for (size_t i = 0; i < 12; ++i) {
    GenerateRequest request{.prompt = prompts[i],
                            .sampling = {},
                            .stop_tokens = demo.model().stop_tokens};
    request.sampling.temperature = temperature;
    request.sampling.seed = i;
    request.sampling.max_tokens = kTokens;
    requests.push_back(request);
  }
  return requests;
}

class DraftWeightsTest : public testing::Test {
 protected:
  DraftWeightsTest() {
    absl::StatusOr<LoadedModel> loaded = LoadModel("models/demo", backend_);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    model_ = *std::move(loaded);
  }

  std::vector<GenerateResult> Run(
      const std::vector<GenerateRequest>& requests) {
    size_t context = 0;
    for (const GenerateRequest& request : requests) {
      context = std::max(context, request.prompt.size() + kTokens);
    }
    const GenerateOptions options = Tree(32, 8);
    absl::StatusOr<std::unique_ptr<Engine>> engine =
        Engine::Create(model_.config, *model_.weights, backend_,
                       EngineOptionsFor(options, static_cast<int>(context),
                                        model_.num_valid_tokens()));
    EXPECT_TRUE(engine.ok()) << engine.status();
    absl::StatusOr<std::vector<GenerateResult>> results =
        Generate(**engine, options, requests, nullptr);
    EXPECT_TRUE(results.ok()) << results.status();
    return *std::move(results);
  }

  ReferenceBackend backend_{/*num_threads=*/2};
  LoadedModel model_;
};

double MeanAccepted(const std::vector<GenerateResult>& results) {
  int rounds = 0;
  int accepted = 0;
  for (const GenerateResult& result : results) {
    rounds += result.rounds;
    accepted += result.accepted_drafts;
  }
  return 1.0 + static_cast<double>(accepted) / rounds;
}

TEST_F(DraftWeightsTest, TextsAreEqualAndFewDraftsAreLost) {
  std::vector<int32_t> all(model_.num_valid_tokens());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  ASSERT_TRUE(RestrictDraftHead(all, backend_, *model_.weights).ok());
  const absl::Status set =
      SetDraftWeights(DraftWeights::kInt7, backend_, *model_.weights);
  ASSERT_TRUE(set.ok()) << set;
  for (const float temperature : {0.0f, 0.8f}) {
    SCOPED_TRACE(temperature);
    const std::vector<GenerateRequest> requests = Requests(temperature);

    const std::vector<GenerateResult> want =
        DemoModel::Get().Run(Tree(32, 8), requests);
    const std::vector<GenerateResult> got = Run(requests);

    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(Tokens(got[i]), Tokens(want[i])) << "prompt " << i;
    }
    EXPECT_GE(MeanAccepted(got), 0.95 * MeanAccepted(want));
  }
}

TEST_F(DraftWeightsTest, WhatTheTargetReadsStaysAsItIs) {
  const WeightMatrix* projection = model_.weights->drafter->projection;
  const WeightMatrix* head = model_.weights->head;
  EXPECT_TRUE(
      SetDraftWeights(DraftWeights::kFull, backend_, *model_.weights).ok());
  // The reference's activations are float32.
  EXPECT_TRUE(
      SetDraftWeights(DraftWeights::kAuto, backend_, *model_.weights).ok());
  EXPECT_EQ(model_.weights->drafter->projection, projection);

  EXPECT_TRUE(
      SetDraftWeights(DraftWeights::kInt7, backend_, *model_.weights).ok());
  EXPECT_NE(model_.weights->drafter->projection, projection);
  EXPECT_EQ(model_.weights->drafter->head, nullptr);
  EXPECT_EQ(model_.weights->head, head);
}

TEST_F(DraftWeightsTest, ADrafterThatIsNotThereCannotBeQuantised) {
  model_.weights->drafter.reset();
  EXPECT_TRUE(
      SetDraftWeights(DraftWeights::kAuto, backend_, *model_.weights).ok());
  EXPECT_EQ(SetDraftWeights(DraftWeights::kInt7, backend_, *model_.weights),
            absl::InvalidArgumentError("--draft-weights int7: the checkpoint "
                                       "has no drafter (mtp.* tensors)"));
}

}  // namespace
}  // namespace bole::testing_support
