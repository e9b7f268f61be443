// Drawing from logits whose columns are cut among ranks: every rank has what
// one rank with all columns draws, bit for bit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/packed_forest.h"
#include "gtest/gtest.h"
#include "kernels/communicator.h"
#include "kernels/drafting.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/sampling.h"
#include "tests/kernels/reference/cut_columns.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"
#include "tests/worker_service/ranks/on_ranks.h"

namespace bole::testing {
namespace {

constexpr int kVocabulary = 60;
constexpr int kValid = 57;
constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// Columns of each rank: alike, unequal, one without any, and one with padding
// alone.
const std::vector<std::vector<int>>& Cuts() {
  static const std::vector<std::vector<int>> cuts = {
      {30, 30}, {17, 1, 42}, {20, 0, 40}, {25, 32, 3}};
  return cuts;
}

SamplingControl RandomControl(std::mt19937& rng) {
  const auto half = [&rng] { return rng() % 2 == 0; };
  SamplingControl control = PlainControl(rng());
  control.temperature = rng() % 4 == 0 ? 0 : Uniform(rng, 0.5f, 1.5f);
  if (half()) control.top_k = 1 + static_cast<int32_t>(rng() % 20);
  if (half()) control.top_p = Uniform(rng, 0.3f, 1);
  if (half()) control.min_p = Uniform(rng, 0, 0.2f);
  if (half()) {
    control.presence_penalty = 0.5f;
    control.frequency_penalty = 0.3f;
    control.repetition_penalty = 1.3f;
  }
  if (half()) control.min_tokens = 4;
  if (half()) control.top_logprobs = 1 + static_cast<int32_t>(rng() % 5);
  return control;
}

SampledRequest RandomRequest(std::mt19937& rng, int32_t slot) {
  const ProposalTree tree = RandomTree(rng, 1 + static_cast<int>(rng() % 8));
  SampledRequest request{.nodes = {tree.token, tree.parent},
                         .logits = {},
                         .control = RandomControl(rng),
                         .bias = {},
                         .stop = {},
                         .slot = slot};
  for (size_t i = 0; i < request.nodes.token.size(); ++i) {
    std::vector<float>& row =
        request.logits.emplace_back(NormalVector(rng, kVocabulary, 2));
    // Nodes carry the first tokens, which are often drawn.
    for (int token = 0; token < 8; ++token) row[token] += 4;
  }
  if (rng() % 2 == 0) request.bias = {{3, 1.5f}, {40, 2.0f}};
  if (rng() % 2 == 0) request.stop = {5, 50};
  return request;
}

void ExpectSame(const std::vector<SampledPath>& got,
                const std::vector<SampledPath>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t b = 0; b < want.size(); ++b) {
    EXPECT_TRUE(got[b].visits == want[b].visits) << b;
    EXPECT_EQ(got[b].tokens(), want[b].tokens()) << b;
    EXPECT_EQ(got[b].accepted, want[b].accepted) << b;
    EXPECT_EQ(got[b].next_token, want[b].next_token) << b;
  }
}

// Returns how many drafts were accepted.
int ExpectCutDrawsTheSame(const std::vector<SampledRequest>& requests) {
  std::vector<int32_t> counts(requests.size() * kVocabulary);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = i % 7 == 0 ? 1 : 0;
  SampleBatch whole(requests, kVocabulary, kValid, counts);
  const std::vector<SampledPath> want = whole.Run();
  std::vector<float> logits;
  for (const SampledRequest& request : requests) {
    for (const std::vector<float>& row : request.logits) {
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  for (const std::vector<int>& cut : Cuts()) {
    const int n = static_cast<int>(cut.size());
    OnRanks(n, [&](std::unique_ptr<Communicator> own) {
      const int rank = own->rank().index;
      SCOPED_TRACE(rank);
      ReferenceBackend backend(/*num_threads=*/1, std::move(own));
      std::vector<int32_t> own_counts = counts;
      SampleBatch batch(requests, kVocabulary, kValid, own_counts);
      const std::vector<float> part = ColumnsOf(rank, cut, logits);
      SampleParams params = batch.params();
      params.logits = part.data();
      params.rank_columns = cut;

      const absl::Status status = backend.Sample(params);

      EXPECT_TRUE(status.ok()) << status;
      ExpectSame(batch.Unpack(), want);
      batch.ExpectSpareUntouched();
    });
  }
  int accepted = 0;
  for (const SampledPath& path : want) accepted += path.accepted;
  return accepted;
}

TEST(CutSamplingTest, EveryKindOfDrawIsThatOfWholeLogits) {
  std::mt19937 rng(1);
  int accepted = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    std::vector<SampledRequest> requests;
    const int count = 1 + static_cast<int>(rng() % 4);
    requests.reserve(static_cast<size_t>(count));
    for (int slot = 0; slot < count; ++slot) {
      requests.push_back(RandomRequest(rng, slot));
    }
    accepted += ExpectCutDrawsTheSame(requests);
  }
  EXPECT_GT(accepted, 10);
}

// A lone root with these logits, greedy or drawn.
SampledRequest RootOf(std::vector<float> logits, float temperature,
                      int32_t slot) {
  SampledRequest request{.nodes = {{1}, {kNoParent}},
                         .logits = {std::move(logits)},
                         .control = PlainControl(3),
                         .bias = {},
                         .stop = {},
                         .slot = slot};
  request.control.temperature = temperature;
  request.control.top_logprobs = 4;
  return request;
}

TEST(CutSamplingTest, BordersAndRanksWithoutPossibleTokensMakeNoDifference) {
  std::vector<std::vector<float>> rows;
  // Ties on both sides of every border.
  rows.emplace_back(kVocabulary, 1.0f);
  // The winner is the last valid token, and then the first of a rank.
  for (const int winner : {kValid - 1, 30, 17, 18, 20, 25}) {
    rows.emplace_back(kVocabulary, 0.0f)[winner] = 5;
  }
  // Nothing is possible on the first rank, on the others, and anywhere.
  std::vector<float>& upper = rows.emplace_back(kVocabulary, 1.0f);
  std::fill_n(upper.begin(), 30, kImpossible);
  std::vector<float>& lower = rows.emplace_back(kVocabulary, 1.0f);
  std::fill(lower.begin() + 17, lower.end(), kImpossible);
  rows.emplace_back(kVocabulary, kImpossible);
  // Not a number: on the last rank, on the first, and among the padding.
  for (const int at : {kValid - 1, 0, kValid}) {
    rows.emplace_back(kVocabulary, 0.0f)[at] =
        std::numeric_limits<float>::quiet_NaN();
  }
  rows.emplace_back(kVocabulary, 0.0f)[45] =
      std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < rows.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectCutDrawsTheSame({RootOf(rows[i], 0, 0), RootOf(rows[i], 1, 1)});
  }
}

TEST(CutSamplingTest, TheBestColumnsAreTheBestOfAllRanks) {
  constexpr int kTopK = 5;
  const int32_t num_rows = 3;
  std::mt19937 rng(2);
  std::vector<float> logits = NormalVector(rng, size_t{3} * kVocabulary, 2);
  // A row of ties, and the ids of a list.
  std::fill_n(logits.begin() + kVocabulary, kVocabulary, 0.5f);
  std::vector<int32_t> token_of(kVocabulary);
  for (int v = 0; v < kVocabulary; ++v) token_of[v] = 10 + 3 * v;
  struct Result {
    std::vector<int32_t> token = std::vector<int32_t>(3 * kTopK);
    std::vector<float> log_prob = std::vector<float>(3 * kTopK);
  };
  const auto run = [&](const float* values, std::span<const int> cut,
                       ReferenceBackend& backend) {
    Result result;
    const absl::Status status =
        backend.TopK({.rows = {&num_rows, num_rows},
                      .vocabulary = kVocabulary,
                      .num_valid_tokens = kValid,
                      .top_k = kTopK,
                      .logits = values,
                      .rank_columns = cut,
                      .token_of = token_of.data(),
                      .token = result.token.data(),
                      .log_prob = result.log_prob.data()});
    EXPECT_TRUE(status.ok()) << status;
    return result;
  };
  ReferenceBackend alone(/*num_threads=*/1);
  const Result want = run(logits.data(), {}, alone);

  for (const std::vector<int>& cut : Cuts()) {
    OnRanks(static_cast<int>(cut.size()),
            [&](std::unique_ptr<Communicator> own) {
              const int rank = own->rank().index;
              ReferenceBackend backend(/*num_threads=*/1, std::move(own));
              const std::vector<float> part = ColumnsOf(rank, cut, logits);
              const Result got = run(part.data(), cut, backend);
              EXPECT_EQ(got.token, want.token);
              EXPECT_TRUE(SameBits(got.log_prob, want.log_prob));
            });
  }
}

}  // namespace
}  // namespace bole::testing
