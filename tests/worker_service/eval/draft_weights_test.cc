// A drafter with weights of 7 bits writes what one with full weights writes,
// and is right nearly as often.
#include "worker_service/loading/draft_weights.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/eval/demo_model.h"
#include "tests/worker_service/eval/drafting_demo.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/draft_head.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

class DraftWeightsTest : public testing::Test {
 protected:
  DraftingDemo demo_;
  ReferenceBackend& backend_ = demo_.backend;
  LoadedModel& model_ = demo_.model;
};

TEST_F(DraftWeightsTest, TextsAreEqualAndFewDraftsAreLost) {
  std::vector<int32_t> all(model_.num_valid_tokens());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  ASSERT_TRUE(RestrictDraftHead(all, backend_, *model_.weights).ok());
  const absl::Status set =
      SetDraftWeights(DraftWeights::kInt7, backend_, *model_.weights);
  ASSERT_TRUE(set.ok()) << set;
  for (const float temperature : {0.0f, 0.8f}) {
    SCOPED_TRACE(temperature);
    const std::vector<GenerateRequest> requests =
        DemoRequests(0, 12, temperature);

    const std::vector<GenerateResult> want =
        DemoModel::Get().Run(Tree(32, 8), requests);
    const std::vector<GenerateResult> got = demo_.Run(requests);

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
