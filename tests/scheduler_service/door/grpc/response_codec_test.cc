#include "scheduler_service/door/grpc/response_codec.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace bole {
namespace {

Request OneRequest(bool logprobs) {
  Request request;
  request.id = "r";
  request.prompt = {1, 2, 3};
  request.sampling.seed = 99;
  request.sampling.logprobs = logprobs;
  return request;
}

TokenDelta Delta(const std::vector<int32_t>& tokens, std::string text) {
  TokenDelta delta;
  for (const int32_t token : tokens) {
    delta.tokens.push_back({.token = token,
                            .logprob = -0.5f,
                            .top = {{.token = 7, .logprob = -0.25f},
                                    {.token = token, .logprob = -0.5f}}});
  }
  delta.text = std::move(text);
  return delta;
}

std::vector<uint32_t> Vector(const auto& repeated) {
  return {repeated.begin(), repeated.end()};
}

TEST(ResponseCodecTest, AChunkHasWhatIsNewAndUsageSoFar) {
  ResponseEncoder encoder(OneRequest(/*logprobs=*/false));

  const v1::GenerateResponse first = encoder.Add(Delta({10, 11}, "ab"));
  const v1::GenerateResponse second = encoder.Add(Delta({12}, ""));

  EXPECT_EQ(first.request_id(), "r");
  EXPECT_EQ(Vector(first.chunk().token_ids()), (std::vector<uint32_t>{10, 11}));
  EXPECT_EQ(first.chunk().text(), "ab");
  EXPECT_EQ(first.chunk().usage().prompt_tokens(), 3u);
  EXPECT_EQ(first.chunk().usage().completion_tokens(), 2u);
  EXPECT_EQ(first.chunk().output_logprobs_size(), 0);
  EXPECT_EQ(Vector(second.chunk().token_ids()), (std::vector<uint32_t>{12}));
  EXPECT_EQ(second.chunk().text(), "");
  EXPECT_EQ(second.chunk().usage().completion_tokens(), 3u);
}

TEST(ResponseCodecTest, ResumedTokensAreCountedAndNotSaidAgain) {
  Request request = OneRequest(/*logprobs=*/false);
  request.resumed = {8, 9};
  ResponseEncoder encoder(request);

  const v1::GenerateResponse response = encoder.Add(Delta({10}, "a"));

  EXPECT_EQ(Vector(response.chunk().token_ids()), (std::vector<uint32_t>{10}));
  EXPECT_EQ(response.chunk().usage().completion_tokens(), 3u);
}

TEST(ResponseCodecTest, TheCompleteMessageIsEverything) {
  ResponseEncoder encoder(OneRequest(/*logprobs=*/false));
  encoder.Add(Delta({10, 11}, "ab"));
  encoder.Add(Delta({12}, "c"));

  const v1::GenerateResponse response =
      encoder.Complete({.matched = int32_t{12},
                        .rounds = 4,
                        .accepted_drafts = 2,
                        .queue_seconds = 0.25,
                        .first_token_seconds = 0.5,
                        .total_seconds = 1});

  EXPECT_EQ(response.request_id(), "r");
  const v1::GenerateComplete& complete = response.complete();
  EXPECT_EQ(Vector(complete.output_ids()), (std::vector<uint32_t>{10, 11, 12}));
  EXPECT_EQ(complete.text(), "abc");
  EXPECT_EQ(complete.usage().prompt_tokens(), 3u);
  EXPECT_EQ(complete.usage().completion_tokens(), 3u);
  EXPECT_EQ(complete.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(complete.matched_token_id(), 12u);
  EXPECT_EQ(complete.seed(), 99u);
  EXPECT_EQ(complete.speculation().rounds(), 4u);
  EXPECT_EQ(complete.speculation().accepted_drafts(), 2u);
  EXPECT_EQ(complete.timing().queue_seconds(), 0.25);
  EXPECT_EQ(complete.timing().first_token_seconds(), 0.5);
  EXPECT_EQ(complete.timing().total_seconds(), 1);
}

TEST(ResponseCodecTest, ReasonsToFinish) {
  Completion string_matched;
  string_matched.matched = std::string("END");

  const v1::GenerateComplete stop =
      ResponseEncoder(OneRequest(false)).Complete(string_matched).complete();
  const v1::GenerateComplete length =
      ResponseEncoder(OneRequest(false)).Complete(Completion()).complete();

  EXPECT_EQ(stop.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(stop.matched_stop_str(), "END");
  EXPECT_EQ(length.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(length.matched_stop_case(),
            v1::GenerateComplete::MATCHED_STOP_NOT_SET);
}

TEST(ResponseCodecTest, LogprobsComeIfTheyWereAskedFor) {
  ResponseEncoder encoder(OneRequest(/*logprobs=*/true));

  const v1::GenerateResponse chunk = encoder.Add(Delta({10}, "a"));
  encoder.Add(Delta({11}, "b"));
  const v1::GenerateResponse end = encoder.Complete(Completion());

  ASSERT_EQ(chunk.chunk().output_logprobs_size(), 1);
  const v1::TokenLogprob& logprob = chunk.chunk().output_logprobs(0);
  EXPECT_EQ(logprob.token_id(), 10u);
  EXPECT_EQ(logprob.logprob(), -0.5f);
  ASSERT_EQ(logprob.top_size(), 2);
  EXPECT_EQ(logprob.top(0).token_id(), 7u);
  EXPECT_EQ(logprob.top(0).logprob(), -0.25f);
  ASSERT_EQ(end.complete().output_logprobs_size(), 2);
  EXPECT_EQ(end.complete().output_logprobs(1).token_id(), 11u);
}

TEST(ResponseCodecTest, WhatIsKeptIsCountedAndSmall) {
  constexpr int kTokens = 1000;
  ResponseEncoder plain(OneRequest(/*logprobs=*/false));
  ResponseEncoder with_logprobs(OneRequest(/*logprobs=*/true));
  EXPECT_EQ(plain.kept_bytes(), with_logprobs.kept_bytes());
  TokenDelta delta = Delta({10}, "four");
  delta.tokens[0].top.resize(20, {.token = 100'000, .logprob = -1.5f});

  for (int i = 0; i < kTokens; ++i) {
    plain.Add(delta);
    with_logprobs.Add(delta);
  }

  // 4 bytes for the id, 4 of text; the containers may have twice the room.
  EXPECT_GE(plain.kept_bytes(), kTokens * 8);
  EXPECT_LE(plain.kept_bytes(), kTokens * 16 + 100);
  // 20 times an id of 3 bytes, a float, and three bytes of tags.
  EXPECT_GE(with_logprobs.kept_bytes(), kTokens * 20 * 10);
  EXPECT_LE(with_logprobs.kept_bytes(), kTokens * 20 * 26);
  const v1::GenerateResponse end = with_logprobs.Complete(Completion());
  ASSERT_EQ(end.complete().output_logprobs_size(), kTokens);
  EXPECT_EQ(end.complete().output_logprobs(kTokens - 1).top(19).logprob(),
            -1.5f);
}

}  // namespace
}  // namespace bole
