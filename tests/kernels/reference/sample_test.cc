#include "kernels/reference/sample.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::PlainControl;
using ::bole::testing::SampleBatch;
using ::bole::testing::SampledPath;
using ::bole::testing::SampledRequest;
using ::bole::testing::SampledVisit;
using ::bole::testing::UniformInt;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kVocabulary = 10;

SamplingControl GreedyControl() {
  SamplingControl control = PlainControl(0);
  control.temperature = 0;
  return control;
}

// Logits whose largest is that of `token`.
std::vector<float> Favouring(int32_t token) {
  std::vector<float> logits(kVocabulary, -1.0f);
  logits[token] = 2.0f;
  return logits;
}

// A greedy request whose node i is followed by token next[i].
SampledRequest Greedy(const NodeList& nodes, const std::vector<int>& next) {
  SampledRequest request{.nodes = nodes,
                         .logits = {},
                         .control = GreedyControl(),
                         .bias = {},
                         .stop = {}};
  for (const int token : next) request.logits.push_back(Favouring(token));
  return request;
}

// 0(7) - 1(8) - 2(9), 1 - 3(4), and 0 - 4(5).
NodeList SmallTree() { return {{7, 8, 9, 4, 5}, {-1, 0, 1, 1, 0}}; }

SampledPath RunOne(const SampledRequest& request,
                   int num_valid_tokens = kVocabulary) {
  std::vector<int32_t> counts(kVocabulary);
  return SampleBatch({request}, kVocabulary, num_valid_tokens, counts)
      .Run()
      .front();
}

std::vector<int32_t> Nodes(const SampledPath& path) {
  std::vector<int32_t> nodes;
  for (const SampledVisit& visit : path.visits) nodes.push_back(visit.node);
  return nodes;
}

TEST(SampleTest, WalksToTheChildThatCarriesTheTokenDrawn) {
  const SampledPath path = RunOne(Greedy(SmallTree(), {8, 4, 0, 6, 0}));

  EXPECT_EQ(Nodes(path), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(path.tokens(), (std::vector<int32_t>{8, 4, 6}));
  EXPECT_EQ(path.accepted, 2);
  EXPECT_EQ(path.next_token, 6);
}

TEST(SampleTest, ALoneRootEmitsOneToken) {
  const SampledPath path = RunOne(Greedy({{7}, {-1}}, {3}));

  EXPECT_EQ(Nodes(path), (std::vector<int32_t>{0}));
  EXPECT_EQ(path.tokens(), (std::vector<int32_t>{3}));
  EXPECT_EQ(path.accepted, 0);
}

// Node 4 carries token 5, but it is not a child of node 1.
TEST(SampleTest, OnlyChildrenOfTheNodeAreLookedAt) {
  const SampledPath path = RunOne(Greedy(SmallTree(), {8, 5, 0, 0, 0}));

  EXPECT_EQ(Nodes(path), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(path.tokens(), (std::vector<int32_t>{8, 5}));
}

TEST(SampleTest, StopsAfterAStopTokenThoughAChildCarriesIt) {
  SampledRequest request = Greedy(SmallTree(), {8, 9, 0, 0, 0});
  request.stop = {3, 8};

  const SampledPath path = RunOne(request);

  EXPECT_EQ(Nodes(path), (std::vector<int32_t>{0}));
  EXPECT_EQ(path.tokens(), (std::vector<int32_t>{8}));
  EXPECT_EQ(path.accepted, 1);  // The tree had proposed it.
  EXPECT_EQ(path.next_token, 8);
}

TEST(SampleTest, StopsAfterMaxTokens) {
  for (int max_tokens = 1; max_tokens <= 4; ++max_tokens) {
    SampledRequest request = Greedy(SmallTree(), {8, 9, 3, 0, 0});
    request.control.max_tokens = max_tokens;

    const SampledPath path = RunOne(request);

    EXPECT_EQ(std::ssize(path.visits), std::min(max_tokens, 3));
    EXPECT_EQ(path.accepted, std::min(max_tokens, 2));
  }
}

TEST(SampleTest, OfSeveralParentlessNodesTheFirstIsTheRoot) {
  const SampledPath path =
      RunOne(Greedy({{7, 8, 9, 3}, {-1, -1, 0, 1}}, {9, 3, 5, 4}));

  EXPECT_EQ(Nodes(path), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(path.tokens(), (std::vector<int32_t>{9, 5}));
}

TEST(SampleTest, ARequestWithoutRowsKeepsItsNextToken) {
  std::vector<int32_t> counts(kVocabulary);
  SampleBatch batch(
      {Greedy({{7}, {-1}}, {3}), Greedy({}, {}), Greedy({{7}, {-1}}, {4})},
      kVocabulary, kVocabulary, counts);
  batch.next_token[1] = 6;

  const std::vector<SampledPath> paths = batch.Run();

  EXPECT_EQ(paths[0].tokens(), (std::vector<int32_t>{3}));
  EXPECT_TRUE(paths[1].visits.empty());
  EXPECT_EQ(paths[1].accepted, 0);
  EXPECT_EQ(paths[1].next_token, 6);
  EXPECT_EQ(paths[2].tokens(), (std::vector<int32_t>{4}));
}

TEST(SampleTest, GreedyTiesGoToTheLowerId) {
  SampledRequest request = Greedy({{7}, {-1}}, {3});
  request.logits[0] = {0, 1, 5, 1, 5, 5, 1, 1, 1, 1};

  EXPECT_EQ(RunOne(request).next_token, 2);
}

TEST(SampleTest, IdsBeyondTheValidOnesAreNeverDrawn) {
  SampledRequest request = Greedy({{7}, {-1}}, {9});
  request.logits[0][8] = 1;
  request.bias = {{9, 100.0f}};
  EXPECT_EQ(RunOne(request, /*num_valid_tokens=*/9).next_token, 8);

  for (uint64_t seed = 0; seed < 200; ++seed) {
    request.control = PlainControl(seed);

    EXPECT_LT(RunOne(request, /*num_valid_tokens=*/7).next_token, 7);
  }
}

TEST(SampleTest, AnInfiniteLogitIsTheLargest) {
  for (const float temperature : {0.0f, 1.0f}) {
    SampledRequest request = Greedy({{7}, {-1}}, {3});
    request.control.temperature = temperature;
    request.logits[0].assign(kVocabulary, -kInfinity);
    request.logits[0][5] = 1;
    EXPECT_EQ(RunOne(request).next_token, 5);
    EXPECT_EQ(RunOne(request).visits[0].logprob, 0);

    request.logits[0][6] = kInfinity;
    EXPECT_EQ(RunOne(request).next_token, 6);
    EXPECT_EQ(RunOne(request).visits[0].logprob, 0);
  }
}

void ExpectNoToken(const SampledRequest& request, int num_valid_tokens) {
  const SampledPath path = RunOne(request, num_valid_tokens);

  EXPECT_EQ(Nodes(path), (std::vector<int32_t>{0}));
  EXPECT_EQ(path.tokens(), (std::vector<int32_t>{kNoToken}));
  EXPECT_EQ(path.next_token, kNoToken);
  EXPECT_EQ(path.accepted, 0);
}

// Wherever the NaN is.
void ExpectNoTokenWithNan(const SampledRequest& request) {
  for (int v = 0; v < kVocabulary - 1; ++v) {
    SCOPED_TRACE(v);
    SampledRequest bad = request;
    bad.logits[0][v] = kNan;

    ExpectNoToken(bad, kVocabulary - 1);
  }
}

// Whatever the filters: also where a bias or a penalty would make the token
// impossible.
TEST(SampleTest, ARowWithNanGivesNoToken) {
  SampledRequest request = Greedy(SmallTree(), {8, 9, 0, 0, 0});
  request.control.top_logprobs = 3;
  request.bias = {{4, -100.0f}};
  for (const float temperature : {0.0f, 0.7f}) {
    for (const int top_k : {0, 2}) {
      for (const float top_p : {1.0f, 0.5f}) {
        request.control.temperature = temperature;
        request.control.top_k = top_k;
        request.control.top_p = top_p;
        ExpectNoTokenWithNan(request);
      }
    }
  }
}

TEST(SampleTest, NanAmongPaddingIsNotLookedAt) {
  SampledRequest request = Greedy({{7}, {-1}}, {3});
  request.logits[0][kVocabulary - 1] = kNan;

  EXPECT_EQ(RunOne(request, kVocabulary - 1).next_token, 3);
}

TEST(SampleTest, ARowWithoutPossibleTokensGivesNoToken) {
  for (const float temperature : {0.0f, 1.0f}) {
    SampledRequest request = Greedy({{7}, {-1}}, {3});
    request.control.temperature = temperature;
    request.logits[0].assign(kVocabulary, -kInfinity);

    ExpectNoToken(request, kVocabulary);
  }
}

TEST(SampleTest, StopTokensAreBannedFromTheFirstTokensOfTheOutput) {
  SampledRequest request = Greedy({{7}, {-1}}, {3});
  request.logits[0][5] = request.logits[0][3] - 0.25f;
  request.stop = {3, 9};
  request.control.prompt_length = 1;  // The root is number 0 of the output.
  for (const float temperature : {0.0f, 1e-3f}) {
    request.control.temperature = temperature;
    for (const auto& [min_tokens, token] :
         {std::pair(0, 3), std::pair(1, 3), std::pair(2, 5), std::pair(9, 5)}) {
      SCOPED_TRACE(min_tokens);
      request.control.min_tokens = min_tokens;

      EXPECT_EQ(RunOne(request).next_token, token);
    }
  }
}

TEST(SampleTest, ABanIsStrongerThanABias) {
  SampledRequest request = Greedy({{7}, {-1}}, {3});
  request.bias = {{3, 100.0f}};
  request.stop = {3};
  request.control.prompt_length = 2;
  request.control.min_tokens = 1;

  EXPECT_EQ(RunOne(request).next_token, 0);
}

TEST(SampleTest, NoTokenIsDrawnIfAllAreBanned) {
  SampledRequest request = Greedy({{7}, {-1}}, {3});
  for (int v = 0; v < kVocabulary; ++v) request.stop.push_back(v);
  request.control.prompt_length = 2;
  request.control.min_tokens = 1;

  ExpectNoToken(request, kVocabulary);
}

// What it emitted before stays, the rows that no walk visits may be NaN, and
// the requests beside it are as ever.
TEST(SampleTest, AWalkEndsAtARowWithNan) {
  SampledRequest bad = Greedy(SmallTree(), {8, 4, 0, 6, 0});
  bad.logits[3][2] = kNan;
  SampledRequest good = Greedy(SmallTree(), {8, 4, 0, 6, 0});
  good.logits[2][2] = kNan;
  good.logits[4].assign(kVocabulary, kNan);
  std::vector<int32_t> counts(kVocabulary);

  const std::vector<SampledPath> paths =
      SampleBatch({good, bad, good}, kVocabulary, kVocabulary, counts).Run();

  EXPECT_EQ(Nodes(paths[1]), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(paths[1].tokens(), (std::vector<int32_t>{8, 4, kNoToken}));
  EXPECT_EQ(paths[1].accepted, 2);
  EXPECT_EQ(paths[1].next_token, kNoToken);
  for (const int b : {0, 2}) {
    EXPECT_EQ(paths[b].tokens(), (std::vector<int32_t>{8, 4, 6}));
    EXPECT_EQ(paths[b].next_token, 6);
  }
}

TEST(SampleTest, LogProbabilitiesAreTheModelsBeforeBiasAndFilters) {
  SampledRequest request = Greedy({{7}, {-1}}, {3});
  request.logits[0] = {0, 0, std::log(2.0f), 0, 0, 0, 0, 0, 50, 50};
  request.bias = {{1, 9.0f}};
  request.control.temperature = 0.1f;
  request.control.top_k = 1;
  request.control.top_logprobs = 3;

  // There are eight valid tokens; seven weigh 1 and one weighs 2.
  const SampledPath path = RunOne(request, /*num_valid_tokens=*/8);

  ASSERT_EQ(path.visits.size(), 1u);
  const SampledVisit& visit = path.visits[0];
  EXPECT_EQ(visit.token, 1);
  EXPECT_FLOAT_EQ(visit.logprob, std::log(1.0f / 9));
  ASSERT_EQ(visit.top.size(), 3u);
  EXPECT_EQ(visit.top[0].first, 2);
  EXPECT_FLOAT_EQ(visit.top[0].second, std::log(2.0f / 9));
  EXPECT_EQ(visit.top[1].first, 0);
  EXPECT_EQ(visit.top[2].first, 1);
  EXPECT_EQ(visit.top[2].second, visit.logprob);
}

TEST(SampleTest, AlternativesAreAtMostTheValidTokens) {
  SampledRequest request = Greedy({{7}, {-1}}, {3});
  request.control.top_logprobs = kMaxTopLogprobs;

  EXPECT_EQ(RunOne(request, /*num_valid_tokens=*/4).visits[0].top.size(), 4u);
}

// A slot's counts are not read before the request has committed tokens.
TEST(SampleTest, ANewRequestHasNoHistory) {
  SampledRequest request = Greedy({{7}, {-1}}, {3});
  request.control.frequency_penalty = 2;
  std::vector<int32_t> counts(kVocabulary);
  counts[3] = 100;

  request.committed = 1;
  EXPECT_EQ(SampleBatch({request}, kVocabulary, kVocabulary, counts)
                .Run()[0]
                .next_token,
            0);
  request.committed = 0;
  EXPECT_EQ(SampleBatch({request}, kVocabulary, kVocabulary, counts)
                .Run()[0]
                .next_token,
            3);
}

SampledRequest RandomRequest(std::mt19937& rng) {
  std::normal_distribution<float> normal;
  SampledRequest request{.nodes = {},
                         .logits = {},
                         .control = PlainControl(rng()),
                         .bias = {},
                         .stop = {UniformInt(rng, 0, kVocabulary - 1)}};
  const int num_nodes = UniformInt(rng, 1, 30);
  for (int i = 0; i < num_nodes; ++i) {
    request.nodes.parent.push_back(i == 0 ? -1 : UniformInt(rng, 0, i - 1));
    request.nodes.token.push_back(UniformInt(rng, 0, kVocabulary - 1));
    request.logits.emplace_back();
    for (int v = 0; v < kVocabulary; ++v) {
      request.logits.back().push_back(2 * normal(rng));
    }
  }
  request.control.top_p = UniformInt(rng, 0, 1) ? 0.8f : 1.0f;
  request.control.presence_penalty = UniformInt(rng, 0, 1) ? 0.5f : 0.0f;
  request.control.top_logprobs = UniformInt(rng, 0, 3);
  request.slot = UniformInt(rng, 0, 3);
  request.committed = UniformInt(rng, 0, 1000);
  return request;
}

TEST(SampleTest, AResultDoesNotDependOnTheBatchOrTheThreads) {
  std::mt19937 rng(1);
  std::vector<int32_t> counts(4 * kVocabulary);
  for (int32_t& count : counts) count = UniformInt(rng, 0, 2);
  ThreadPool pool(3);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    std::vector<SampledRequest> requests(UniformInt(rng, 1, 6));
    for (SampledRequest& request : requests) request = RandomRequest(rng);

    const std::vector<SampledPath> together =
        SampleBatch(requests, kVocabulary, kVocabulary, counts).Run(pool);

    for (size_t b = 0; b < requests.size(); ++b) {
      const SampledPath alone =
          SampleBatch({requests[b]}, kVocabulary, kVocabulary, counts).Run()[0];
      EXPECT_EQ(together[b].visits, alone.visits);
      EXPECT_EQ(together[b].accepted, alone.accepted);
      EXPECT_EQ(together[b].next_token, alone.next_token);
    }
  }
}

}  // namespace
}  // namespace bole::reference
