#include "kernels/reference/count_tokens.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/reference/sample_batch.h"

namespace bole::reference {
namespace {

using ::bole::testing::PlainControl;
using ::bole::testing::SampleBatch;
using ::bole::testing::SampledRequest;

constexpr int kVocabulary = 4;

// A chain of tokens, every row on the path, in `slot` of penalized requests.
SampledRequest Chain(const std::vector<int32_t>& tokens, int32_t slot,
                     int32_t committed, int32_t prompt_length) {
  SampledRequest request{.nodes = {},
                         .logits = {},
                         .control = PlainControl(0),
                         .bias = {},
                         .stop = {},
                         .slot = slot,
                         .committed = committed};
  for (size_t i = 0; i < tokens.size(); ++i) {
    request.nodes.token.push_back(tokens[i]);
    request.nodes.parent.push_back(static_cast<int32_t>(i) - 1);
    request.logits.emplace_back(kVocabulary);
  }
  request.control.presence_penalty = 1;
  request.control.prompt_length = prompt_length;
  return request;
}

// Counts the first path_length[b] rows of each request.
void Count(const std::vector<SampledRequest>& requests,
           const std::vector<int>& path_length, std::vector<int32_t>& counts) {
  SampleBatch batch(requests, kVocabulary, kVocabulary, counts);
  CountTokensParams params = batch.count_params();
  std::vector<int32_t> first = {0};
  std::vector<int32_t> row;
  for (size_t b = 0; b < requests.size(); ++b) {
    for (int i = 0; i < path_length[b]; ++i) {
      row.push_back(params.batch.first_row[b] + i);
    }
    first.push_back(static_cast<int32_t>(row.size()));
  }
  first.resize(params.batch.max_requests + 1, first.back());
  params.path = {first.data(), row.data()};
  CountTokens(params);
}

TEST(CountTokensTest, PromptAndOutputAreToldApartByPosition) {
  std::vector<int32_t> counts(kVocabulary);

  // Positions 5, 6 are prompt; 7, 8, 9 output.
  Count({Chain({0, 1, 1, 2, 2}, /*slot=*/0, /*committed=*/5,
               /*prompt_length=*/7)},
        {5}, counts);

  EXPECT_EQ(counts,
            (std::vector<int32_t>{kPromptToken, kPromptToken + 1, 2, 0}));
}

TEST(CountTokensTest, OnlyThePathCounts) {
  std::vector<int32_t> counts(kVocabulary);

  Count({Chain({0, 1, 2, 3}, 0, /*committed=*/5, 0)}, {2}, counts);

  EXPECT_EQ(counts, (std::vector<int32_t>{1, 1, 0, 0}));
}

TEST(CountTokensTest, TheFirstTokensOfARequestReplaceWhatTheSlotHeld) {
  std::vector<int32_t> counts(2 * kVocabulary, 50);

  Count({Chain({3}, /*slot=*/1, /*committed=*/0, 1),
         Chain({3}, /*slot=*/0, /*committed=*/1, 1)},
        {1, 1}, counts);

  EXPECT_EQ(counts,
            (std::vector<int32_t>{50, 50, 50, 51, 0, 0, 0, kPromptToken}));
}

TEST(CountTokensTest, AnEmptyPathOfANewRequestStillClearsTheSlot) {
  std::vector<int32_t> counts(kVocabulary, 50);

  Count({Chain({3}, 0, /*committed=*/0, 1)}, {0}, counts);

  EXPECT_EQ(counts, std::vector<int32_t>(kVocabulary));
}

TEST(CountTokensTest, APromptTokenIsMarkedOnce) {
  std::vector<int32_t> counts(kVocabulary);
  for (int round = 0; round < 10; ++round) {
    Count({Chain({2, 2}, 0, /*committed=*/2 * round + 1, 100)}, {2}, counts);
  }

  EXPECT_EQ(counts, (std::vector<int32_t>{0, 0, kPromptToken, 0}));
}

TEST(CountTokensTest, RequestsWithoutRowsLeaveTheirSlotsAlone) {
  std::vector<int32_t> counts(kVocabulary, 50);

  Count({Chain({}, /*slot=*/0, /*committed=*/0, 0)}, {0}, counts);

  EXPECT_EQ(counts, std::vector<int32_t>(kVocabulary, 50));
}

// One with penalties may go on from the slot of one without.
TEST(CountTokensTest, TokensOfRequestsWithoutPenaltiesCount) {
  std::vector<int32_t> counts(kVocabulary, 50);
  SampledRequest plain = Chain({3, 1}, /*slot=*/0, /*committed=*/0, 1);
  plain.control.presence_penalty = 0;

  Count({plain}, {2}, counts);

  EXPECT_EQ(counts, (std::vector<int32_t>{0, 1, 0, kPromptToken}));
}

TEST(CountTokensTest, OutputOfOneSlotBecomesPrompt) {
  std::vector<int32_t> counts = {
      1, 2, 3, 4, 0, 7, kPromptToken, kPromptToken + 2, 1, 2, 3, 4};

  OutputToPrompt(
      {.slot = 1, .vocabulary = kVocabulary, .counts = {counts.data(), 3}});

  EXPECT_EQ(counts,
            (std::vector<int32_t>{1, 2, 3, 4, 0, kPromptToken, kPromptToken,
                                  kPromptToken, 1, 2, 3, 4}));
}

TEST(CountTokensTest, EachPenaltyAloneNeedsCounts) {
  EXPECT_FALSE(HasPenalties(PlainControl(0)));
  SamplingControl control = PlainControl(0);
  control.presence_penalty = -0.5f;
  EXPECT_TRUE(HasPenalties(control));
  control = PlainControl(0);
  control.frequency_penalty = 0.5f;
  EXPECT_TRUE(HasPenalties(control));
  control = PlainControl(0);
  control.repetition_penalty = 1.5f;
  EXPECT_TRUE(HasPenalties(control));
}

}  // namespace
}  // namespace bole::reference
