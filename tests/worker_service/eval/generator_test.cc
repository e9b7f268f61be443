// Offline generation, on a small random checkpoint.
#include "worker_service/eval/generator.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/eval/demo_model.h"
#include "tests/worker_service/eval/dense_runs.h"
#include "worker_service/engine/engine.h"

namespace bole::testing_support {
namespace {

// Speculation off, a chain and a tree.
std::vector<GenerateOptions> EveryShape(int max_batch) {
  return {Off(max_batch), Chain(3, max_batch), Tree(15, max_batch)};
}

GenerateOptions OneByOne(GenerateOptions options) {
  options.max_batch = 1;
  return options;
}

// To the last bit of the log probabilities.
void ExpectSameResult(const GenerateResult& got, const GenerateResult& want) {
  EXPECT_EQ(Tokens(got), Tokens(want));
  EXPECT_TRUE(got.output == want.output);
  EXPECT_EQ(got.rounds, want.rounds);
  EXPECT_EQ(got.accepted_drafts, want.accepted_drafts);
}

TEST(GenerateTest, RefusesARequestBeforeAnyIsRun) {
  std::mt19937 rng(1);
  const GenerateRequest good = RandomRequest(rng, 5, 5);
  const GenerateRequest empty = RandomRequest(rng, 0, 5);
  const GenerateRequest too_long = RandomRequest(rng, 10, 31);
  const EngineOptions engine =
      EngineOptionsFor(Off(1), /*max_context=*/40, kValidTokens);
  int num_tokens = 0;
  const TokenCallback count = [&](size_t, const EmittedToken&) {
    ++num_tokens;
  };

  EXPECT_EQ(TryRunDense(Off(1), engine, {good, empty}, count).status(),
            absl::InvalidArgumentError("prompt 1 has no tokens"));
  EXPECT_EQ(
      TryRunDense(Off(1), engine, {good, good, too_long}, count).status(),
      absl::InvalidArgumentError("prompt 2 of 10 tokens and 31 new ones exceed "
                                 "the context of 40"));

  EXPECT_EQ(num_tokens, 0);
}

TEST(GenerateTest, FillsTheContextToItsEnd) {
  std::mt19937 rng(2);
  const GenerateRequest request = RandomRequest(rng, 10, 30);
  for (const GenerateOptions& options : EveryShape(1)) {
    const absl::StatusOr<std::vector<GenerateResult>> results = TryRunDense(
        options, EngineOptionsFor(options, 40, kValidTokens), {request});

    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ((*results)[0].output.size(), 30u);
  }
}

TEST(GenerateTest, WithoutRequestsThereAreNoResults) {
  EXPECT_TRUE(RunDense(Tree(15, 2), {}).empty());
}

TEST(GenerateTest, EveryResultIsThatOfItsRequestAlone) {
  std::mt19937 rng(3);
  const std::vector<GenerateRequest> requests = RandomRequests(rng, 9);
  for (const GenerateOptions& options : EveryShape(3)) {
    const std::vector<GenerateResult> together = RunDense(options, requests);

    ASSERT_EQ(together.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      const int max_tokens = *requests[i].sampling.max_tokens;
      EXPECT_EQ(std::ssize(together[i].output), max_tokens);
      ExpectSameResult(together[i],
                       RunDense(OneByOne(options), {requests[i]})[0]);
    }
  }
}

TEST(GenerateTest, TellsEveryTokenAsItIsEmitted) {
  std::mt19937 rng(4);
  const std::vector<GenerateRequest> requests = RandomRequests(rng, 5);
  std::vector<std::vector<EmittedToken>> told(requests.size());
  std::vector<size_t> order;

  const std::vector<GenerateResult> results = RunDense(
      Tree(15, 2), requests, [&](size_t request, const EmittedToken& token) {
        told[request].push_back(token);
        order.push_back(request);
      });

  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(told[i] == results[i].output) << i;
  }
  // Two run at a time: the third begins when one of them has ended.
  const auto third = std::find(order.begin(), order.end(), 2u);
  const auto still_to_come = [&](size_t request) {
    return std::find(third, order.end(), request) != order.end();
  };
  EXPECT_FALSE(still_to_come(0) && still_to_come(1));
}

TEST(GenerateTest, TheFirstTokenTakesNoRoundAndPlainDecodingOneForEachOther) {
  std::mt19937 rng(5);
  for (const int max_tokens : {1, 2, 20}) {
    const GenerateRequest request = RandomRequest(rng, 30, max_tokens);

    const GenerateResult plain = RunDense(Off(1), {request})[0];
    const GenerateResult tree = RunDense(Tree(15, 1), {request})[0];

    EXPECT_EQ(plain.rounds, max_tokens - 1);
    EXPECT_EQ(plain.accepted_drafts, 0);
    EXPECT_LE(tree.rounds, plain.rounds);
  }
}

// A round emits what it accepts and one token more, unless what it emitted last
// had been proposed as well and only the text's end kept it from going on.
TEST(GenerateTest, AcceptedDraftsAreTheTokensThatRoundsDidNotCost) {
  std::mt19937 rng(6);
  const std::vector<GenerateRequest> requests = RandomRequests(rng, 20);
  for (const GenerateOptions& options : {Chain(3, 4), Tree(15, 4)}) {
    const std::vector<GenerateResult> results = RunDense(options, requests);

    int ended_on_a_draft = 0;
    for (const GenerateResult& result : results) {
      const int saved =
          static_cast<int>(result.output.size()) - 1 - result.rounds;
      EXPECT_GE(result.accepted_drafts, saved);
      EXPECT_LE(result.accepted_drafts, saved + (result.rounds > 0 ? 1 : 0));
      ended_on_a_draft += result.accepted_drafts - saved;
    }
    EXPECT_GT(TotalAccepted(results), 20);
    EXPECT_GT(ended_on_a_draft, 0);
  }
}

TEST(GenerateTest, AStopTokenEndsTheTextAndIsItsLast) {
  std::mt19937 rng(7);
  std::vector<GenerateRequest> requests = RandomRequests(rng, 6);
  for (GenerateRequest& request : requests) request.sampling.max_tokens = 40;
  const std::vector<GenerateResult> full = RunDense(Off(1), requests);

  for (int32_t stop = 0; stop < kValidTokens; ++stop) {
    for (GenerateRequest& request : requests) {
      request.stop_tokens = {300, stop};
    }
    for (const GenerateOptions& options : EveryShape(2)) {
      const std::vector<GenerateResult> results = RunDense(options, requests);

      for (size_t i = 0; i < requests.size(); ++i) {
        std::vector<int32_t> want = Tokens(full[i]);
        const auto end = std::find(want.begin(), want.end(), stop);
        if (end != want.end()) want.erase(end + 1, want.end());
        EXPECT_EQ(Tokens(results[i]), want) << "request " << i;
      }
    }
  }
}

// Chunks end at multiples of kPrefillGrid; the last takes what is left. The
// texts are long enough for a slip of the drafter's at a cut to show in what is
// accepted.
TEST(GenerateTest, LongPromptsInChunksGiveTheBitsOfWholeOnes) {
  std::mt19937 rng(8);
  std::vector<GenerateRequest> requests;
  for (const int length : {200, 64, 65, 1, 129, 63, 320, 128}) {
    requests.push_back(RandomRequest(rng, length, 80));
  }
  for (const GenerateOptions& options : {Off(3), Tree(15, 3)}) {
    const std::vector<GenerateResult> whole =
        RunDense(OneByOne(options), requests);

    for (const int max_prefill_tokens : {64, 100, 190}) {
      SCOPED_TRACE(max_prefill_tokens);
      EngineOptions engine =
          EngineOptionsFor(options, kMaxContext, kValidTokens);
      engine.max_prefill_tokens = max_prefill_tokens;
      const absl::StatusOr<std::vector<GenerateResult>> chunked =
          TryRunDense(options, engine, requests);

      ASSERT_TRUE(chunked.ok()) << chunked.status();
      for (size_t i = 0; i < requests.size(); ++i) {
        SCOPED_TRACE(i);
        ExpectSameResult((*chunked)[i], whole[i]);
      }
    }
  }
}

TEST(GenerateTest, MorePagesThanAContextNeedsDoNoHarm) {
  std::mt19937 rng(9);
  const std::vector<GenerateRequest> requests = RandomRequests(rng, 3);
  EngineOptions engine =
      EngineOptionsFor(Tree(15, 2), kMaxContext, kValidTokens);
  engine.num_pages *= 10;

  const absl::StatusOr<std::vector<GenerateResult>> results =
      TryRunDense(Tree(15, 2), engine, requests);

  ASSERT_TRUE(results.ok()) << results.status();
  const std::vector<GenerateResult> want = RunDense(Tree(15, 2), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ExpectSameResult((*results)[i], want[i]);
  }
}

}  // namespace
}  // namespace bole::testing_support
