// Compares the counts of committed tokens on the GPU with the reference.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/sampling.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/sampling/device_sampling.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr int kNumSlots = 8;

// The nodes form a chain. A quarter of the requests have no penalties, a
// quarter are new, and some have no rows.
SampledRequest RandomChain(std::mt19937& rng, int slot, int vocabulary) {
  SampledRequest request{
      .nodes = {},
      .logits = {},
      .control = PlainControl(0),
      .bias = {},
      .stop = {},
      .slot = slot,
      .committed = UniformInt(rng, 0, 3) == 0 ? 0 : UniformInt(rng, 1, 50)};
  const int num_nodes = UniformInt(rng, 0, 3) * UniformInt(rng, 1, 800);
  for (int i = 0; i < num_nodes; ++i) {
    request.nodes.parent.push_back(i - 1);
    request.nodes.token.push_back(UniformInt(rng, 0, vocabulary - 1));
    request.logits.emplace_back(vocabulary);
  }
  request.control.prompt_length = UniformInt(rng, 0, 500);
  const int penalty = UniformInt(rng, 0, 3);
  if (penalty == 1) request.control.presence_penalty = -0.5f;
  if (penalty == 2) request.control.frequency_penalty = 0.25f;
  if (penalty == 3) request.control.repetition_penalty = 1.1f;
  return request;
}

// For each request, a random number of its first rows.
struct Prefixes {
  Prefixes(std::mt19937& rng, const std::vector<SampledRequest>& requests,
           const RowBatch& batch) {
    for (size_t b = 0; b < requests.size(); ++b) {
      const auto num_rows = static_cast<int>(requests[b].nodes.token.size());
      const int length = UniformInt(rng, 0, num_rows);
      for (int i = 0; i < length; ++i) row.push_back(batch.first_row[b] + i);
      first.push_back(static_cast<int32_t>(row.size()));
    }
    first.resize(batch.max_requests + 1, first.back());
  }

  std::vector<int32_t> first = {0};
  std::vector<int32_t> row;
};

class CountTokensTest : public CudaTest {};

INSTANTIATE_TEST_SUITE_P(Elements, CountTokensTest,
                         ::testing::Values(ElementType::kFloat32), ElementName);

TEST_P(CountTokensTest, CountsAreEqual) {
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    const int vocabulary = UniformInt(rng_, 1, round % 2 == 0 ? 8 : 400);
    std::vector<SampledRequest> requests;
    const int num_requests = UniformInt(rng_, 1, kNumSlots);
    requests.reserve(num_requests);
    for (int b = 0; b < num_requests; ++b) {
      requests.push_back(RandomChain(rng_, kNumSlots - 1 - b, vocabulary));
    }
    std::vector<int32_t> want(static_cast<size_t>(kNumSlots) * vocabulary);
    for (int32_t& count : want) {
      count = UniformInt(rng_, 0, 1) * kPromptToken + UniformInt(rng_, 0, 5);
    }
    std::vector<int32_t> got = want;
    SampleBatch batch(requests, vocabulary, vocabulary, want);
    CountTokensParams params = batch.count_params();
    const Prefixes path(rng_, requests, params.batch);
    params.path = {path.first.data(), path.row.data()};

    const absl::Status reference = reference_.CountTokens(params);
    ASSERT_TRUE(reference.ok()) << reference;
    DeviceSampling device(*cuda_);
    const absl::Status counted = cuda_->CountTokens(device.Of(params, got));
    ASSERT_TRUE(counted.ok()) << counted;
    ASSERT_NO_FATAL_FAILURE(device.Fetch());

    EXPECT_EQ(got, want) << requests.size() << " requests, vocabulary "
                         << vocabulary;
  }
}

// One slot is converted, however the vocabulary is divided into blocks.
TEST_P(CountTokensTest, OutputBecomesPromptAsInTheReference) {
  for (const int vocabulary : {1, 255, 256, 1000, 8192}) {
    SCOPED_TRACE(vocabulary);
    std::vector<int32_t> want(size_t{3} * vocabulary);
    for (int32_t& count : want) {
      count = UniformInt(rng_, 0, 1) * kPromptToken + UniformInt(rng_, 0, 2);
    }
    std::vector<int32_t> got = want;

    const absl::Status reference = reference_.OutputToPrompt(
        {.slot = 1, .vocabulary = vocabulary, .counts = {want.data(), 3}});
    ASSERT_TRUE(reference.ok()) << reference;
    DeviceCopies copies(*cuda_);
    const absl::Status run = cuda_->OutputToPrompt(
        {.slot = 1,
         .vocabulary = vocabulary,
         .counts = {const_cast<int32_t*>(copies.Of(got)), 3}});
    ASSERT_TRUE(run.ok()) << run;
    ASSERT_NO_FATAL_FAILURE(copies.Fetch());

    EXPECT_EQ(got, want);
  }
}

// The sweep covers all of the slot and nothing outside of it.
TEST_P(CountTokensTest, ANewRequestSweepsAFullVocabulary) {
  const int vocabulary = 248320;
  SampledRequest request = {.nodes = {{vocabulary - 1}, {-1}},
                            .logits = {std::vector<float>(vocabulary)},
                            .control = PlainControl(0),
                            .bias = {},
                            .stop = {},
                            .slot = 1,
                            .committed = 0};
  request.control.presence_penalty = 1;
  std::vector<int32_t> counts(3 * static_cast<size_t>(vocabulary), 9);
  SampleBatch batch({request}, vocabulary, vocabulary, counts);
  CountTokensParams params = batch.count_params();
  const std::vector<int32_t> first = {0, 1, 1, 1};
  const std::vector<int32_t> row = {0};
  params.path = {first.data(), row.data()};

  DeviceSampling device(*cuda_);
  const absl::Status counted = cuda_->CountTokens(device.Of(params, counts));
  ASSERT_TRUE(counted.ok()) << counted;
  ASSERT_NO_FATAL_FAILURE(device.Fetch());

  std::vector<int32_t> want(3 * static_cast<size_t>(vocabulary), 9);
  std::fill_n(want.begin() + vocabulary, vocabulary, 0);
  want[2 * static_cast<size_t>(vocabulary) - 1] = 1;
  EXPECT_TRUE(counts == want);
}

}  // namespace
}  // namespace bole::testing
