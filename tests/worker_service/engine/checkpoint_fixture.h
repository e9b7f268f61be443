// What tests of requests that go on from checkpoints share.
#ifndef BOLE_TESTS_WORKER_SERVICE_ENGINE_CHECKPOINT_FIXTURE_H_
#define BOLE_TESTS_WORKER_SERVICE_ENGINE_CHECKPOINT_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/draft_shape.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/engine/checkpoint_driver.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {

inline constexpr DraftShape kTree = CheckpointDriver::kTree;
inline constexpr DraftShape kChain = CheckpointDriver::kChain;
inline constexpr int kPromptTokens = 230;

inline SamplingParams Greedy() {
  SamplingParams sampling;
  sampling.temperature = 0;
  return sampling;
}
inline SamplingParams Penalized() {
  SamplingParams sampling;
  sampling.temperature = 0.8f;
  sampling.presence_penalty = 0.3f;
  sampling.frequency_penalty = 0.2f;
  sampling.repetition_penalty = 1.2f;
  sampling.seed = 5;
  return sampling;
}

// Plain rounds, whose drafts are put off, chains and trees.
struct RoundKind {
  int nodes;
  std::optional<DraftShape> draft;
};
inline const std::vector<RoundKind>& MixedRounds() {
  static const std::vector<RoundKind> rounds = {
      {1, std::nullopt}, {1, std::nullopt}, {1, kChain}, {4, kChain},
      {4, kTree},        {12, kTree},       {12, kTree}, {12, std::nullopt},
      {1, kTree},        {16, kTree}};
  return rounds;
}

// Parameter: the model. Instantiate with BOLE_FOR_EACH_CHECKPOINT_MODEL.
class CheckpointTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    absl::StatusOr<LoadedModel> model = LoadModel(GetParam(), backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  CheckpointDriver NewDriver(int page_size = 16) {
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
                                 uint32_t seed,
                                 int num_tokens = kPromptTokens) const {
    std::vector<int32_t> prompt = Text(num_tokens, seed);
    std::copy_n(text.begin(), length, prompt.begin());
    return prompt;
  }

  ReferenceBackend backend_{/*num_threads=*/1};
  LoadedModel model_;
};

// The rounds of both, and what they leave.
inline void ExpectSameRounds(CheckpointDriver& a, int number_of_a,
                             CheckpointDriver& b, int number_of_b) {
  for (const RoundKind& kind : MixedRounds()) {
    const SequenceResult got = a.Round(number_of_a, kind.nodes, kind.draft);
    EXPECT_TRUE(got == b.Round(number_of_b, kind.nodes, kind.draft))
        << kind.nodes << " nodes at " << a.committed(number_of_a);
  }
  ExpectSameContent(a, number_of_a, b, number_of_b);
}

inline std::string CheckpointModelName(
    const ::testing::TestParamInfo<std::string>& info) {
  const char* const names[] = {"SyntheticDense", "SyntheticMoe", "Dense",
                               "Moe"};
  return names[info.index];
}

// Synthetic models accept what they draft. Of random ones every layer changes
// what is drawn.
#define BOLE_FOR_EACH_CHECKPOINT_MODEL(suite)                      \
  INSTANTIATE_TEST_SUITE_P(                                        \
      Models, suite,                                               \
      ::testing::Values("synthetic:tiny,layers=4,noise=1",         \
                        "synthetic:tiny-moe,layers=4,noise=1",     \
                        "tests/golden/dense", "tests/golden/moe"), \
      ::bole::testing_support::CheckpointModelName)

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_ENGINE_CHECKPOINT_FIXTURE_H_
