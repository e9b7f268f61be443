// Sampling on the GPU against the reference.
//
// Greedy draws, paths and alternatives must be equal. With noise, both take
// logarithms that differ in their last bits: scores of up to 30 differ by 1e-5
// at most, and so may one draw in 100,000. One in 1000 is allowed.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/sampling.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/sampling/device_sampling.h"
#include "tests/kernels/cuda/sampling/sample_cases.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

// For the trace of a failure.
std::string Describe(const SamplingControl& c) {
  return "T, k, p, min_p and penalties " +
         ::testing::PrintToString(std::vector<double>{
             c.temperature, 1.0 * c.top_k, c.top_p, c.min_p, c.presence_penalty,
             c.frequency_penalty, c.repetition_penalty});
}

void ExpectLogprob(float got, float want, const std::string& what) {
  if (std::isinf(want)) {
    EXPECT_EQ(got, want) << what;
    return;
  }
  // Sums of exponentials that are off by 2^-22 of themselves, then a rounding.
  EXPECT_NEAR(got, want, 1e-6 + std::abs(want) * 0x1p-22) << what;
}

void ExpectSameReports(const SampledVisit& got, const SampledVisit& want,
                       const std::string& what) {
  ExpectLogprob(got.logprob, want.logprob, what);
  ASSERT_EQ(got.top.size(), want.top.size()) << what;
  for (size_t i = 0; i < want.top.size(); ++i) {
    EXPECT_EQ(got.top[i].first, want.top[i].first) << what << " top " << i;
    ExpectLogprob(got.top[i].second, want.top[i].second,
                  what + " top " + std::to_string(i));
  }
}

class SampleTest : public CudaTest {
 protected:
  // Samples with both. Reports of probabilities must agree wherever the draws
  // do; a request where they do not counts as one that differs.
  void Compare(SampleCase& c) {
    SampleBatch want(c.requests, c.vocabulary, c.num_valid_tokens, c.counts);
    SampleBatch got(c.requests, c.vocabulary, c.num_valid_tokens, c.counts);
    const std::vector<SampledPath> want_paths = want.Run();
    const std::vector<int32_t> counts = c.counts;

    DeviceSampling device(*cuda_);
    const absl::Status sampled = cuda_->Sample(device.Of(got, c.counts));
    ASSERT_TRUE(sampled.ok()) << sampled;
    ASSERT_NO_FATAL_FAILURE(device.Fetch());

    EXPECT_EQ(c.counts, counts);
    ASSERT_EQ(got.path_first.front(), 0);
    ASSERT_TRUE(std::ranges::is_sorted(got.path_first));
    ASSERT_LE(got.path_first.back(), got.path_row.size());
    got.ExpectSpareUntouched();
    const std::vector<SampledPath> got_paths = got.Unpack();
    for (size_t b = 0; b < want_paths.size(); ++b) {
      ComparePaths(got_paths[b], want_paths[b],
                   "request " + std::to_string(b) + " of vocabulary " +
                       std::to_string(c.vocabulary) + ", " +
                       Describe(c.requests[b].control));
    }
  }

  void ComparePaths(const SampledPath& got, const SampledPath& want,
                    const std::string& what) {
    num_draws_ += static_cast<int>(want.visits.size());
    const bool same_nodes =
        std::ranges::equal(got.visits, want.visits,
                           [](const SampledVisit& a, const SampledVisit& b) {
                             return a.node == b.node && a.token == b.token;
                           });
    if (!same_nodes || got.accepted != want.accepted ||
        got.next_token != want.next_token) {
      ++num_differing_;
      differing_ += what + ": tokens " +
                    ::testing::PrintToString(got.tokens()) + ", expected " +
                    ::testing::PrintToString(want.tokens()) + ", accepted " +
                    std::to_string(got.accepted) + ", expected " +
                    std::to_string(want.accepted) + "\n";
      return;
    }
    for (size_t i = 0; i < want.visits.size(); ++i) {
      ExpectSameReports(got.visits[i], want.visits[i],
                        what + ", visit " + std::to_string(i));
    }
  }

  int num_draws_ = 0;
  int num_differing_ = 0;
  std::string differing_;
};

// Sampling sees no activations.
INSTANTIATE_TEST_SUITE_P(Elements, SampleTest,
                         ::testing::Values(ElementType::kFloat32), ElementName);

TEST_P(SampleTest, GreedyPathsAreEqual) {
  for (int round = 0; round < 300; round += EveryNth(40)) {
    SCOPED_TRACE(round);
    SampleCase c = RandomSampleCase(rng_, round % 3 == 0 ? 3000 : 12);
    for (SampledRequest& request : c.requests) {
      request.control.temperature = 0;
    }

    ASSERT_NO_FATAL_FAILURE(Compare(c));
  }

  EXPECT_EQ(num_differing_, 0) << differing_;
  // Many walks went beyond their roots.
  EXPECT_GT(num_draws_, 1200 / EveryNth(40));
}

TEST_P(SampleTest, DrawnPathsAreEqualUpToNearTies) {
  for (int round = 0; round < 600; round += EveryNth(200)) {
    SCOPED_TRACE(round);
    SampleCase c = RandomSampleCase(rng_, round % 3 == 0 ? 3000 : 12);

    ASSERT_NO_FATAL_FAILURE(Compare(c));
  }

  EXPECT_LE(num_differing_, 1 + num_draws_ / 1000) << differing_;
  EXPECT_GT(num_draws_, 1000 / EveryNth(200));
}

// 308 requests at a time. A stride of 41 leaves every control.
TEST_P(SampleTest, HostileRowsAreSurvivedAsTheReferenceDoes) {
  int n = 0;
  for (const int vocabulary : {5, 37, 2049, 5001}) {
    SampleCase c = {.requests = {},
                    .vocabulary = vocabulary,
                    .num_valid_tokens = vocabulary - 1,
                    .counts = RandomCounts(rng_, vocabulary)};
    for (const std::vector<float>& row : HostileRows(rng_, vocabulary)) {
      for (SamplingControl control : ExtremeControls()) {
        if (n++ % EveryNth(41) != 0) continue;
        control.seed += c.requests.size();
        c.requests.push_back(OneRow(row, control));
      }
    }

    ASSERT_NO_FATAL_FAILURE(Compare(c));
  }

  EXPECT_LE(num_differing_, 1) << differing_;
}

// One NaN in a row of a Qwen vocabulary, wherever it is: each part of the row
// is looked at by other threads, and rows alone, in dozens and in hundreds by
// blocks that have other numbers of parts.
TEST_P(SampleTest, OneNanInARowGivesNoToken) {
  const int vocabulary = 248320;
  const int num_valid = 248077;
  std::vector<float> logits(vocabulary);
  std::normal_distribution<float> normal(0, 2);
  for (float& z : logits) z = normal(rng_);
  const std::vector<SamplingControl> controls = ExtremeControls();
  for (const int rows : {1, 40, 130}) {
    SampleCase c = {.requests = {},
                    .vocabulary = vocabulary,
                    .num_valid_tokens = num_valid,
                    .counts = RandomCounts(rng_, vocabulary)};
    for (int i = 0; i < rows; i += EveryNth(10)) {
      c.requests.push_back(OneRow(logits, controls[i % controls.size()]));
      // The first, the last that counts, the first that does not; then any.
      const int places[] = {0, num_valid - 1, num_valid};
      const int place = i < 3 ? places[i] : UniformInt(rng_, 0, num_valid - 1);
      c.requests.back().logits[0][place] =
          std::numeric_limits<float>::quiet_NaN();
    }
    SampleBatch batch(c.requests, vocabulary, num_valid, c.counts);
    DeviceSampling device(*cuda_);

    const absl::Status sampled = cuda_->Sample(device.Of(batch, c.counts));

    ASSERT_TRUE(sampled.ok()) << sampled;
    ASSERT_NO_FATAL_FAILURE(device.Fetch());
    const std::vector<SampledPath> paths = batch.Unpack();
    for (size_t b = 0; b < paths.size(); ++b) {
      const bool is_good = rows > 2 && EveryNth(10) == 1 && b == 2;
      ASSERT_EQ(paths[b].visits.size(), 1u);
      EXPECT_EQ(paths[b].visits[0].token == kNoToken, !is_good) << b;
      EXPECT_EQ(paths[b].next_token == kNoToken, !is_good) << b;
    }
  }
}

// A Qwen vocabulary, with filters that keep few, many and nearly all tokens.
TEST_P(SampleTest, DrawsFromAFullVocabulary) {
  const int vocabulary = 248320;
  const std::vector<SamplingControl> controls = ExtremeAndUsualControls();
  SampleCase c = {.requests = {},
                  .vocabulary = vocabulary,
                  .num_valid_tokens = 248077,
                  .counts = RandomCounts(rng_, vocabulary)};
  std::normal_distribution<float> normal(0, 2);
  for (size_t i = 0; i < controls.size(); i += EveryNth(3)) {
    std::vector<float> logits(vocabulary);
    for (float& z : logits) z = normal(rng_);
    c.requests.push_back(OneRow(logits, controls[i]));
    c.requests.back().control.seed += c.requests.size();
  }
  c.requests.push_back(c.requests.front());  // Half of 248,077 equals.
  c.requests.back().logits[0].assign(vocabulary, 1.5f);
  c.requests.back().control.top_p = 0.5f;
  c.requests.push_back(c.requests.front());  // All of many biases.
  c.requests.back().control.temperature = 0;
  for (int i = 0; i < 1024; ++i) {
    c.requests.back().bias.emplace_back(i * 242,
                                        8 + static_cast<float>(i % 32));
  }

  ASSERT_NO_FATAL_FAILURE(Compare(c));

  EXPECT_LE(num_differing_, 1) << differing_;
}

// Stop tokens that lie in several parts of a row, and are the likeliest: alone
// and beside biases and penalties, however a token is drawn.
TEST_P(SampleTest, StopTokensAreBannedFromAFullVocabulary) {
  const int vocabulary = 248320;
  const int num_valid = 248077;
  const std::vector<int32_t> stops = {0, 4095, 4096, 100000, num_valid - 1};
  std::vector<SamplingControl> controls(6, PlainControl(3));
  controls[0].temperature = 0;
  controls[1].top_p = 0.9f;
  controls[2].top_k = 20;
  controls[3].top_k = 5000;
  controls[4].frequency_penalty = 0.5f;
  SampleCase c = {.requests = {},
                  .vocabulary = vocabulary,
                  .num_valid_tokens = num_valid,
                  .counts = RandomCounts(rng_, vocabulary)};
  std::normal_distribution<float> normal(0, 1);
  for (size_t i = 0; i < controls.size(); ++i) {
    std::vector<float> logits(vocabulary);
    for (float& z : logits) z = normal(rng_);
    for (const int32_t token : stops) logits[token] = 25;
    SampledRequest request = OneRow(logits, controls[i]);
    request.stop = stops;
    request.control.prompt_length = request.committed;  // Number 1 is drawn.
    if (i == 5) request.bias = {{4095, 10.0f}, {7, 1.0f}};
    for (const int min_tokens : {1, 2}) {
      request.control.min_tokens = min_tokens;
      c.requests.push_back(request);
    }
  }

  ASSERT_NO_FATAL_FAILURE(Compare(c));

  EXPECT_LE(num_differing_, 1) << differing_;
}

// A chain of 400 nodes, each the likeliest after its parent. The last draw
// depends on how often the chain has every token.
TEST_P(SampleTest, PenaltiesCountEveryAncestorOfADeepNode) {
  const int vocabulary = 50;
  for (int round = 0; round < 20; round += EveryNth(20)) {
    SCOPED_TRACE(round);
    SampledRequest request = OneRow({}, PlainControl(round));
    request.nodes = {};
    request.logits.clear();
    request.committed = UniformInt(rng_, 0, 3);
    for (int i = 0; i < 400; ++i) {
      request.nodes.parent.push_back(i - 1);
      request.nodes.token.push_back(
          std::min(UniformInt(rng_, 0, 49), UniformInt(rng_, 0, 49)));
      request.logits.emplace_back(vocabulary);
      if (i > 0) request.logits[i - 1][request.nodes.token[i]] = 1000;
    }
    request.control.frequency_penalty = OneOf<float>(rng_, {0, 0.3f, -0.3f});
    request.control.presence_penalty = 0.1f;
    request.control.temperature = OneOf<float>(rng_, {0, 1});
    request.control.prompt_length = UniformInt(rng_, 0, 300);
    SampleCase c = {.requests = {request},
                    .vocabulary = vocabulary,
                    .num_valid_tokens = vocabulary,
                    .counts = RandomCounts(rng_, vocabulary)};

    ASSERT_NO_FATAL_FAILURE(Compare(c));
  }

  EXPECT_EQ(num_draws_, 20 / EveryNth(20) * 400);
  EXPECT_EQ(num_differing_, 0) << differing_;
}

}  // namespace
}  // namespace bole::testing
