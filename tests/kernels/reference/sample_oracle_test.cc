// Sample() against the definition of every filter and penalty.
#include "tests/kernels/reference/sample_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

// A request, and the tokens at positions 0 .. committed - 1 behind its counts.
struct OracleCase {
  SampledRequest request;
  std::vector<int32_t> history;
  int vocabulary;
  int num_valid_tokens;
};

template <typename T>
T OneOf(std::mt19937& rng, const std::vector<T>& values) {
  return values[UniformInt(rng, 0, static_cast<int>(values.size()) - 1)];
}

SamplingControl RandomControl(std::mt19937& rng) {
  SamplingControl control = PlainControl(rng());
  control.temperature = OneOf<float>(rng, {0, 0.3f, 1, 1, 2.5f});
  control.top_k = OneOf<int>(rng, {0, 0, 1, 2, 4, 10});
  control.top_p = OneOf<float>(rng, {1, 1, 0.9f, 0.6f, 0.1f});
  control.min_p = OneOf<float>(rng, {0, 0, 0.05f, 0.4f});
  control.presence_penalty = OneOf<float>(rng, {0, 0, 0.5f, -1.5f});
  control.frequency_penalty = OneOf<float>(rng, {0, 0, 0.25f, -0.75f});
  // Powers of two: what ties in float also ties in the oracle's double.
  control.repetition_penalty = OneOf<float>(rng, {1, 1, 4, 2, 0.5f});
  control.prompt_length = UniformInt(rng, 0, 20);
  control.top_logprobs = OneOf<int>(rng, {0, 0, 3, 20});
  return control;
}

// Distinct siblings, and few tokens, so that walks go deep.
NodeList RandomNodes(std::mt19937& rng, int vocabulary) {
  NodeList nodes;
  const int num_nodes = UniformInt(rng, 1, 25);
  for (int i = 0; i < num_nodes; ++i) {
    const int last = static_cast<int>(nodes.parent.size()) - 1;
    const int parent = i == 0 ? -1 : UniformInt(rng, 0, last);
    const int token = UniformInt(rng, 0, vocabulary - 1);
    bool is_new = true;
    for (int j = 1; j < std::ssize(nodes.parent); ++j) {
      is_new &= nodes.parent[j] != parent || nodes.token[j] != token;
    }
    if (!is_new) continue;
    nodes.parent.push_back(parent);
    nodes.token.push_back(token);
  }
  return nodes;
}

std::vector<std::vector<float>> RandomLogits(std::mt19937& rng, int num_nodes,
                                             int vocabulary) {
  std::normal_distribution<float> normal(0, 2);
  const bool coarse = UniformInt(rng, 0, 1) == 0;  // Ties are common.
  std::vector<std::vector<float>> logits(num_nodes);
  for (std::vector<float>& row : logits) {
    for (int v = 0; v < vocabulary; ++v) {
      const float z = normal(rng);
      row.push_back(coarse ? std::round(4 * z) / 4 : z);
      if (UniformInt(rng, 0, 50) == 0) {
        row.back() = -std::numeric_limits<float>::infinity();
      }
      if (UniformInt(rng, 0, 200) == 0) {
        row.back() = std::numeric_limits<float>::quiet_NaN();
      }
    }
    row[UniformInt(rng, 0, 1)] = 0.5f;  // One valid token at least is possible.
  }
  return logits;
}

OracleCase RandomCase(std::mt19937& rng) {
  OracleCase c;
  c.vocabulary = UniformInt(rng, 4, 12);
  c.num_valid_tokens = c.vocabulary - UniformInt(rng, 0, 2);
  c.request.nodes = RandomNodes(rng, c.vocabulary);
  c.request.logits = RandomLogits(
      rng, static_cast<int>(c.request.nodes.token.size()), c.vocabulary);
  c.request.control = RandomControl(rng);
  c.request.slot = UniformInt(rng, 0, 1);
  c.request.committed = UniformInt(rng, 0, 20);
  for (int i = 0; i < c.request.committed; ++i) {
    c.history.push_back(UniformInt(rng, 0, c.vocabulary - 1));
  }
  for (int v = 0; v < c.vocabulary; ++v) {
    if (UniformInt(rng, 0, 5) > 0) continue;
    c.request.bias.emplace_back(v, OneOf<float>(rng, {1.5f, -0.5f, -100}));
  }
  if (UniformInt(rng, 0, 3) == 0) {
    c.request.stop = {UniformInt(rng, 0, c.vocabulary - 1)};
  }
  if (UniformInt(rng, 0, 3) == 0) {
    c.request.control.max_tokens = UniformInt(rng, 1, 3);
  }
  if (UniformInt(rng, 0, 3) == 0) {
    c.request.control.min_tokens = UniformInt(rng, 1, 20);
    for (int i = UniformInt(rng, 0, 2); i > 0; --i) {
      c.request.stop.push_back(UniformInt(rng, 0, c.vocabulary - 1));
    }
  }
  return c;
}

std::vector<int32_t> CountsOf(const OracleCase& c) {
  std::vector<int32_t> counts(2 * c.vocabulary, 999);  // Another slot's.
  const auto count = counts.begin() + c.request.slot * c.vocabulary;
  if (c.request.committed > 0) std::fill_n(count, c.vocabulary, 0);
  for (int i = 0; i < std::ssize(c.history); ++i) {
    if (i < c.request.control.prompt_length) {
      count[c.history[i]] |= kPromptToken;
    } else {
      ++count[c.history[i]];
    }
  }
  return counts;
}

// Output number i, counted from 0, is no stop token if i < min_tokens. Returns
// whether any token is left.
bool Ban(const SampledRequest& request, int position,
         std::vector<double>& logits) {
  const int number = position - request.control.prompt_length;
  if (std::max(number, 0) < request.control.min_tokens) {
    for (const int32_t token : request.stop) {
      if (token < std::ssize(logits)) logits[token] = -HUGE_VAL;
    }
  }
  return std::any_of(logits.begin(), logits.end(),
                     [](double z) { return z > -HUGE_VAL; });
}

// Plain decoding of the request, for as long as the tree agrees.
SampledPath OraclePath(const OracleCase& c) {
  const SampledRequest& request = c.request;
  SampledPath path;
  std::vector<int32_t> history = c.history;
  for (int node = 0; node >= 0;) {
    history.push_back(request.nodes.token[node]);
    const std::span<const float> logits(request.logits[node].data(),
                                        c.num_valid_tokens);
    std::vector<double> adjusted =
        AdjustedLogits(logits, request.control, request.bias, history);
    const bool can_draw =
        Ban(request, static_cast<int>(history.size()), adjusted);
    if (!can_draw || std::any_of(logits.begin(), logits.end(),
                                 [](float z) { return std::isnan(z); })) {
      path.visits.push_back({node, kNoToken, 0, {}});
      break;
    }
    const int32_t token =
        OracleDraw(FilteredDistribution(adjusted, request.control),
                   request.control, static_cast<int>(history.size()));
    const std::vector<double> log_probs = OracleLogProbs(logits);
    path.visits.push_back(
        {node, token, static_cast<float>(log_probs[token]), {}});
    int child = -1;
    for (int i = 1; i < std::ssize(request.nodes.token); ++i) {
      if (request.nodes.parent[i] == node && request.nodes.token[i] == token) {
        child = i;
      }
    }
    path.accepted += child >= 0 ? 1 : 0;
    const bool is_stop = std::find(request.stop.begin(), request.stop.end(),
                                   token) != request.stop.end();
    const bool is_full = std::ssize(path.visits) >= request.control.max_tokens;
    node = is_stop || is_full ? -1 : child;
  }
  return path;
}

// Best first, ties to the lower id.
void ExpectBest(const SampledVisit& visit, const OracleCase& c) {
  const std::span<const float> logits(c.request.logits[visit.node].data(),
                                      c.num_valid_tokens);
  const std::vector<double> log_probs = OracleLogProbs(logits);
  std::vector<int> order(c.num_valid_tokens);
  for (int v = 0; v < c.num_valid_tokens; ++v) order[v] = v;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return log_probs[a] > log_probs[b]; });
  ASSERT_EQ(std::ssize(visit.top),
            std::min(c.request.control.top_logprobs, c.num_valid_tokens));
  for (size_t i = 0; i < visit.top.size(); ++i) {
    EXPECT_EQ(visit.top[i].first, order[i]);
    if (std::isinf(log_probs[order[i]])) {
      EXPECT_EQ(visit.top[i].second, log_probs[order[i]]);
    } else {
      EXPECT_NEAR(visit.top[i].second, log_probs[order[i]], 1e-5);
    }
  }
}

TEST(SampleOracleTest, EveryFilterAndPenaltyFollowsItsDefinition) {
  std::mt19937 rng(1);
  int visits = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const OracleCase c = RandomCase(rng);
    std::vector<int32_t> counts = CountsOf(c);

    const SampledPath got =
        SampleBatch({c.request}, c.vocabulary, c.num_valid_tokens, counts)
            .Run()[0];

    const SampledPath want = OraclePath(c);
    ASSERT_EQ(got.visits.size(), want.visits.size());
    EXPECT_EQ(got.accepted, want.accepted);
    for (size_t i = 0; i < want.visits.size(); ++i) {
      EXPECT_EQ(got.visits[i].node, want.visits[i].node);
      EXPECT_EQ(got.visits[i].token, want.visits[i].token);
      if (want.visits[i].token == kNoToken) continue;
      // Logits of up to 10 in float, whose last bit is worth 1e-6.
      EXPECT_NEAR(got.visits[i].logprob, want.visits[i].logprob, 1e-5);
      ExpectBest(got.visits[i], c);
    }
    visits += static_cast<int>(want.visits.size());
  }
  EXPECT_GT(visits, 4000);  // Many walks went beyond their roots.
}

}  // namespace
}  // namespace bole::testing
