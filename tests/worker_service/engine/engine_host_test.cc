// Requests that go on from what was copied to the host.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/engine/checkpoint_driver.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

constexpr DraftShape kTree = CheckpointDriver::kTree;
constexpr int kPromptTokens = 230;

SamplingParams Penalized() {
  SamplingParams sampling;
  sampling.temperature = 0.8f;
  sampling.frequency_penalty = 0.2f;
  sampling.repetition_penalty = 1.2f;
  sampling.seed = 5;
  return sampling;
}
SamplingParams Greedy() {
  SamplingParams sampling;
  sampling.temperature = 0;
  return sampling;
}

class EngineHostTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    absl::StatusOr<LoadedModel> model = LoadModel(GetParam(), backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }
  CheckpointDriver NewDriver(int page_size) {
    return CheckpointDriver(model_, backend_, page_size);
  }
  std::vector<int32_t> Text(int num_tokens, uint32_t seed) const {
    std::mt19937 rng(seed);
    std::vector<int32_t> text(num_tokens);
    for (int32_t& token : text) {
      token = static_cast<int32_t>(rng() % NumTokens(model_));
    }
    return text;
  }
  // The first tokens of `text`, and then others.
  std::vector<int32_t> Continued(const std::vector<int32_t>& text, int length,
                                 uint32_t seed) const {
    std::vector<int32_t> prompt = Text(kPromptTokens, seed);
    std::copy_n(text.begin(), length, prompt.begin());
    return prompt;
  }

  ReferenceBackend backend_{/*num_threads=*/1};
  LoadedModel model_;
};

// To the host as the text leaves the device, whose slot and pages another text
// takes in the same plan; and back to where a third one was.
TEST_P(EngineHostTest, WhatLeftForTheHostComesBackBitForBit) {
  for (const int page_size : {16, 64}) {
    SCOPED_TRACE(page_size);
    const std::vector<int32_t> text = Text(kPromptTokens, 1);
    CheckpointDriver cached = NewDriver(page_size);
    std::vector<LeftCheckpoint> checkpoints;
    for (const int length : {192, 64, 128}) {
      cached.Begin(0, text, Greedy());
      cached.AddChunk(0, length);
      cached.Run(kTree);
      checkpoints.push_back(
          cached.LeaveOnHost(0, static_cast<int>(checkpoints.size())));
    }
    cached.Begin(0, Text(kPromptTokens, 7), Penalized());
    cached.Prefill(0);
    cached.Begin(1, Text(kPromptTokens, 8), Penalized());
    cached.Prefill(1);

    for (const LeftCheckpoint& from : checkpoints) {
      SCOPED_TRACE(from.length);
      const std::vector<int32_t> prompt =
          Continued(text, from.length, /*seed=*/2 + from.length);
      CheckpointDriver fresh = NewDriver(page_size);
      fresh.Begin(0, prompt, Penalized());

      cached.Begin(1, prompt, Penalized(), from);

      EXPECT_EQ(cached.Prefill(1), fresh.Prefill(0));
      for (const int nodes : {1, 4, 12, 12}) {
        EXPECT_EQ(cached.Round(1, nodes, kTree), fresh.Round(0, nodes, kTree));
      }
      ExpectSameContent(cached, 1, fresh, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EngineHostTest,
                         ::testing::Values("tests/golden/dense",
                                           "tests/golden/moe"),
                         [](const auto& info) {
                           return info.index == 0 ? "Dense" : "Moe";
                         });

}  // namespace
}  // namespace bole::testing_support
