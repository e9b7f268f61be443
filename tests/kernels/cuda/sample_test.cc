// Sampling on the GPU against the reference.
//
// Greedy draws, paths and alternatives must be equal. With noise, both take
// logarithms that differ in their last bits: scores of up to 30 differ by 1e-5
// at most, and so may one draw in 100,000. One in 1000 is allowed.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/sampling.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_sampling.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kNumSlots = 3;

struct SampleCase {
  std::vector<SampledRequest> requests;
  int vocabulary;
  int num_valid_tokens;
  std::vector<int32_t> counts;  // [kNumSlots, vocabulary]
};

template <typename T>
T OneOf(std::mt19937& rng, const std::vector<T>& values) {
  return values[UniformInt(rng, 0, static_cast<int>(values.size()) - 1)];
}

SamplingControl RandomControl(std::mt19937& rng) {
  SamplingControl control = PlainControl(rng() * uint64_t{0x100000001});
  control.temperature = OneOf<float>(rng, {0.3f, 1, 1, 2.5f});
  control.top_k = OneOf<int>(rng, {0, 0, 1, 2, 4, 10, 100});
  control.top_p = OneOf<float>(rng, {1, 1, 0.9f, 0.6f, 0.1f});
  control.min_p = OneOf<float>(rng, {0, 0, 0.05f, 0.4f});
  control.presence_penalty = OneOf<float>(rng, {0, 0, 0.5f, -1.5f});
  control.frequency_penalty = OneOf<float>(rng, {0, 0, 0.3f, -0.7f});
  control.repetition_penalty = OneOf<float>(rng, {1, 1, 1.3f, 0.5f});
  control.prompt_length = UniformInt(rng, 0, 25);
  control.top_logprobs = OneOf<int>(rng, {0, 0, 3, 20});
  return control;
}

// Half of the rows have logits in steps of a quarter, so that ties are common.
std::vector<float> RandomLogits(std::mt19937& rng, int vocabulary) {
  std::normal_distribution<float> normal(0, 2);
  const bool coarse = UniformInt(rng, 0, 1) == 0;
  std::vector<float> logits(vocabulary);
  for (float& z : logits) {
    z = normal(rng);
    if (coarse) z = std::round(4 * z) / 4;
    if (UniformInt(rng, 0, 24) > 0) continue;
    z = OneOf<float>(rng, {kNan, -kInfinity, 0.0f, -0.0f});
  }
  return logits;
}

int32_t Likeliest(const std::vector<float>& logits, int num_valid) {
  int32_t best = 0;
  for (int v = 0; v < num_valid; ++v) {
    if (logits[v] > logits[best] || std::isnan(logits[best])) best = v;
  }
  return best;
}

// Up to 25 nodes, now and then none, or with several parentless ones. Half of
// the nodes carry the likeliest token of their parent, so that walks go deep.
SampledRequest RandomRequest(std::mt19937& rng, int vocabulary, int num_valid) {
  SampledRequest request{.nodes = {},
                         .logits = {},
                         .control = RandomControl(rng),
                         .bias = {},
                         .stop = {},
                         .slot = UniformInt(rng, 0, kNumSlots - 1),
                         .committed = UniformInt(rng, 0, 20)};
  const int num_nodes = UniformInt(rng, 0, 25);
  for (int i = 0; i < num_nodes; ++i) {
    const bool is_root = i == 0 || UniformInt(rng, 0, 15) == 0;
    const int parent = is_root ? -1 : UniformInt(rng, 0, i - 1);
    const bool is_likely = !is_root && UniformInt(rng, 0, 1) == 0;
    request.nodes.parent.push_back(parent);
    request.nodes.token.push_back(
        is_likely ? Likeliest(request.logits[parent], num_valid)
                  : UniformInt(rng, 0, vocabulary - 1));
    request.logits.push_back(RandomLogits(rng, vocabulary));
  }
  for (int i = OneOf<int>(rng, {0, 0, 1, 5}); i > 0; --i) {
    request.bias.emplace_back(UniformInt(rng, 0, vocabulary - 1),
                              OneOf<float>(rng, {1.3f, -0.7f, -100}));
  }
  for (int i = OneOf<int>(rng, {0, 0, 1, 40}); i > 0; --i) {
    request.stop.push_back(UniformInt(rng, 0, vocabulary - 1));
  }
  if (UniformInt(rng, 0, 3) == 0) {
    request.control.max_tokens = UniformInt(rng, 1, 3);
  }
  return request;
}

std::vector<int32_t> RandomCounts(std::mt19937& rng, int vocabulary) {
  std::vector<int32_t> counts(static_cast<size_t>(kNumSlots) * vocabulary);
  for (int32_t& count : counts) {
    count = OneOf<int>(rng, {0, 0, 0, 1, 2, 7, kPromptToken, kPromptToken + 1});
  }
  return counts;
}

SampleCase RandomCase(std::mt19937& rng, int max_vocabulary) {
  const int vocabulary = UniformInt(rng, 4, max_vocabulary);
  SampleCase c = {.requests = {},
                  .vocabulary = vocabulary,
                  .num_valid_tokens = vocabulary - UniformInt(rng, 0, 2),
                  .counts = RandomCounts(rng, vocabulary)};
  const int num_requests = UniformInt(rng, 1, 6);
  for (int b = 0; b < num_requests; ++b) {
    c.requests.push_back(RandomRequest(rng, vocabulary, c.num_valid_tokens));
  }
  return c;
}

// A request of one node.
SampledRequest OneRow(std::vector<float> logits,
                      const SamplingControl& control) {
  return {.nodes = {{1}, {-1}},
          .logits = {std::move(logits)},
          .control = control,
          .bias = {},
          .stop = {}};
}

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
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    SampleCase c = RandomCase(rng_, round % 3 == 0 ? 3000 : 12);
    for (SampledRequest& request : c.requests) {
      request.control.temperature = 0;
    }

    ASSERT_NO_FATAL_FAILURE(Compare(c));
  }

  EXPECT_EQ(num_differing_, 0) << differing_;
  EXPECT_GT(num_draws_, 1200);  // Many walks went beyond their roots.
}

TEST_P(SampleTest, DrawnPathsAreEqualUpToNearTies) {
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    SampleCase c = RandomCase(rng_, round % 3 == 0 ? 3000 : 12);

    ASSERT_NO_FATAL_FAILURE(Compare(c));
  }

  EXPECT_LE(num_differing_, 1 + num_draws_ / 1000) << differing_;
  EXPECT_GT(num_draws_, 2000);
}

std::vector<std::vector<float>> HostileRows(std::mt19937& rng, int vocabulary) {
  std::vector<std::vector<float>> rows;
  for (const float z : {kNan, -kInfinity, kInfinity, 0.0f, -0.0f, FLT_MAX,
                        -FLT_MAX, FLT_MIN, 3.25f}) {
    rows.emplace_back(vocabulary, z);
    rows.push_back(rows.back());
    rows.back()[vocabulary - 3] = 1;
    rows.back()[vocabulary / 2] = -0.5f;
  }
  rows.push_back(RandomLogits(rng, vocabulary));
  for (float& z : rows.back()) z *= 1e36f;
  rows.emplace_back(vocabulary);
  for (int v = 0; v < vocabulary; v += 2) rows.back()[v] = -0.0f;
  return rows;
}

std::vector<SamplingControl> ExtremeControls() {
  const auto with = [](auto change) {
    SamplingControl control = PlainControl(7);
    control.top_logprobs = 2;
    change(control);
    return control;
  };
  return {with([](SamplingControl&) {}),
          with([](SamplingControl& c) { c.temperature = 0; }),
          with([](SamplingControl& c) { c.temperature = 1e-6f; }),
          with([](SamplingControl& c) { c.temperature = 100; }),
          with([](SamplingControl& c) { c.top_k = 1; }),
          with([](SamplingControl& c) { c.top_k = 1 << 30; }),
          with([](SamplingControl& c) { c.top_p = 1e-9f; }),
          with([](SamplingControl& c) { c.top_p = 0.5f; }),
          with([](SamplingControl& c) { c.top_p = 1 - 0x1p-24f; }),
          with([](SamplingControl& c) { c.min_p = 1; }),
          with([](SamplingControl& c) { c.min_p = 1e-9f; }),
          with([](SamplingControl& c) {
            c.top_k = 3;
            c.top_p = 0.5f;
            c.min_p = 0.1f;
            c.repetition_penalty = 2;
            c.presence_penalty = -1;
          })};
}

TEST_P(SampleTest, HostileRowsAreSurvivedAsTheReferenceDoes) {
  for (const int vocabulary : {5, 37, 2049, 5001}) {
    SampleCase c = {.requests = {},
                    .vocabulary = vocabulary,
                    .num_valid_tokens = vocabulary - 1,
                    .counts = RandomCounts(rng_, vocabulary)};
    for (const std::vector<float>& row : HostileRows(rng_, vocabulary)) {
      for (SamplingControl control : ExtremeControls()) {
        control.seed += c.requests.size();
        c.requests.push_back(OneRow(row, control));
      }
    }

    ASSERT_NO_FATAL_FAILURE(Compare(c));
  }

  EXPECT_LE(num_differing_, 1) << differing_;
}

// A Qwen vocabulary, with filters that keep few, many and nearly all tokens.
TEST_P(SampleTest, DrawsFromAFullVocabulary) {
  const int vocabulary = 248320;
  std::vector<SamplingControl> controls = ExtremeControls();
  SamplingControl usual = PlainControl(11);
  usual.temperature = 0.6f;
  usual.top_k = 20;
  usual.top_p = 0.95f;
  usual.top_logprobs = kMaxTopLogprobs;
  controls.push_back(usual);
  usual.presence_penalty = 1.5f;
  controls.push_back(usual);
  usual.top_k = 5000;
  controls.push_back(usual);
  usual.temperature = 1;
  usual.top_k = 0;
  controls.push_back(usual);
  SampleCase c = {.requests = {},
                  .vocabulary = vocabulary,
                  .num_valid_tokens = 248077,
                  .counts = RandomCounts(rng_, vocabulary)};
  std::normal_distribution<float> normal(0, 2);
  for (const SamplingControl& control : controls) {
    std::vector<float> logits(vocabulary);
    for (float& z : logits) z = normal(rng_);
    c.requests.push_back(OneRow(logits, control));
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

// A chain of 400 nodes, each the likeliest after its parent. The last draw
// depends on how often the chain has every token.
TEST_P(SampleTest, PenaltiesCountEveryAncestorOfADeepNode) {
  const int vocabulary = 50;
  for (int round = 0; round < 20; ++round) {
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

  EXPECT_EQ(num_draws_, 20 * 400);
  EXPECT_EQ(num_differing_, 0) << differing_;
}

}  // namespace
}  // namespace bole::testing
