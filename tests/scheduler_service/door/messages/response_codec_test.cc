#include "scheduler_service/door/messages/response_codec.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

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

// An encoder for the model "tiny" with its tokenizer.
ResponseEncoder Encoder(const Request& request, bool chunks = true,
                        std::optional<std::string> echo = std::nullopt) {
  static const auto& model = *new std::string("tiny");
  static const auto& tokenizer = *testing::MakeTinyTokenizer().release();
  return ResponseEncoder(
      request, {.model = model, .tokenizer = tokenizer, .chunks = chunks},
      {.echo = std::move(echo)});
}

// REQUIRES: there are chunks.
v1::GenerateChunk Chunk(ResponseEncoder& encoder, const TokenDelta& delta) {
  return encoder.Add(delta)->chunk();
}

std::vector<uint32_t> Vector(const auto& repeated) {
  return {repeated.begin(), repeated.end()};
}

TEST(ResponseCodecTest, AChunkHasWhatIsNewAndUsageSoFar) {
  ResponseEncoder encoder = Encoder(OneRequest(/*logprobs=*/false));

  const v1::GenerateChunk first = Chunk(encoder, Delta({10, 11}, "ab"));
  const v1::GenerateChunk second = Chunk(encoder, Delta({12}, ""));

  EXPECT_EQ(Vector(first.token_ids()), (std::vector<uint32_t>{10, 11}));
  EXPECT_EQ(first.text(), "ab");
  EXPECT_EQ(first.usage().prompt_tokens(), 3u);
  EXPECT_EQ(first.usage().completion_tokens(), 2u);
  EXPECT_EQ(first.output_logprobs_size(), 0);
  EXPECT_FALSE(first.has_prompt());
  EXPECT_EQ(Vector(second.token_ids()), (std::vector<uint32_t>{12}));
  EXPECT_EQ(second.text(), "");
  EXPECT_EQ(second.usage().completion_tokens(), 3u);
  EXPECT_EQ(encoder.usage().completion_tokens(), 3u);
}

TEST(ResponseCodecTest, EveryMessageNamesRequestModelAndChoice) {
  Request request = OneRequest(/*logprobs=*/false);
  request.choice = 3;
  ResponseEncoder encoder = Encoder(request);

  const v1::GenerateResponse chunk = *encoder.Add(Delta({10}, "a"));
  const v1::GenerateResponse end = encoder.Complete(Completion());

  for (const v1::GenerateResponse* message : {&chunk, &end}) {
    EXPECT_EQ(message->request_id(), "r");
    EXPECT_EQ(message->model(), "tiny");
  }
  EXPECT_EQ(chunk.chunk().index(), 3u);
  EXPECT_EQ(end.complete().index(), 3u);
}

TEST(ResponseCodecTest, ResumedTokensAreCountedAndNotSaidAgain) {
  Request request = OneRequest(/*logprobs=*/false);
  request.resumed = {8, 9};
  ResponseEncoder encoder = Encoder(request);

  const v1::GenerateChunk chunk = Chunk(encoder, Delta({10}, "a"));

  EXPECT_EQ(Vector(chunk.token_ids()), (std::vector<uint32_t>{10}));
  EXPECT_EQ(chunk.usage().completion_tokens(), 3u);
}

TEST(ResponseCodecTest, TheCompleteMessageSaysHowItEnded) {
  ResponseEncoder encoder = Encoder(OneRequest(/*logprobs=*/true));
  encoder.Add(Delta({10, 11}, "ab"));
  encoder.Add(Delta({12}, "c"));

  const v1::GenerateComplete complete =
      encoder
          .Complete({.matched = int32_t{12},
                     .rounds = 4,
                     .accepted_drafts = 2,
                     .speculation = {.rounds = 4,
                                     .off_rounds = 1,
                                     .chain_rounds = 2,
                                     .tree_rounds = 3,
                                     .selected_nodes = int64_t{5} << 32,
                                     .promised_tokens = 2.5,
                                     .off_reason = ""},
                     .queue_seconds = 0.25,
                     .first_token_seconds = 0.5,
                     .total_seconds = 1})
          .complete();

  EXPECT_EQ(complete.usage().prompt_tokens(), 3u);
  EXPECT_EQ(complete.usage().completion_tokens(), 3u);
  EXPECT_EQ(complete.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(complete.matched_token_id(), 12u);
  EXPECT_EQ(complete.seed(), 99u);
  EXPECT_EQ(complete.speculation().rounds(), 4u);
  EXPECT_EQ(complete.speculation().accepted_drafts(), 2u);
  EXPECT_EQ(complete.speculation().off_rounds(), 1u);
  EXPECT_EQ(complete.speculation().chain_rounds(), 2u);
  EXPECT_EQ(complete.speculation().tree_rounds(), 3u);
  EXPECT_EQ(complete.speculation().selected_nodes(), uint64_t{5} << 32);
  EXPECT_EQ(complete.speculation().promised_tokens(), 2.5);
  EXPECT_EQ(complete.speculation().off_reason(),
            v1::SPECULATION_OFF_REASON_UNSPECIFIED);
  EXPECT_EQ(complete.timing().queue_seconds(), 0.25);
  EXPECT_EQ(complete.timing().first_token_seconds(), 0.5);
  EXPECT_EQ(complete.timing().total_seconds(), 1);
  // The chunks had these.
  EXPECT_EQ(complete.output_ids_size(), 0);
  EXPECT_EQ(complete.text(), "");
  EXPECT_EQ(complete.output_logprobs_size(), 0);
}

TEST(ResponseCodecTest, EveryReasonForNoSpeculationHasAName) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"", "UNSPECIFIED"},      {"not_faster", "NOT_WORTH_IT"},
      {"no_table", "NO_TABLE"}, {"no_drafter", "NO_DRAFTER"},
      {"asked", "DISABLED"},    {"request", "REQUEST"}};
  for (const auto& [reason, name] : names) {
    const v1::GenerateComplete complete =
        Encoder(OneRequest(false))
            .Complete({.matched = {}, .speculation = {.off_reason = reason}})
            .complete();

    EXPECT_EQ(
        v1::SpeculationOffReason_Name(complete.speculation().off_reason()),
        "SPECULATION_OFF_REASON_" + name);
  }
  EXPECT_EQ(v1::SpeculationOffReason_ARRAYSIZE, static_cast<int>(names.size()));
}

TEST(ResponseCodecTest, WithoutChunksTheCompleteMessageIsEverything) {
  ResponseEncoder encoder =
      Encoder(OneRequest(/*logprobs=*/true), /*chunks=*/false, "the prompt");
  EXPECT_FALSE(encoder.Add(Delta({10, 11}, "ab")).has_value());
  EXPECT_FALSE(encoder.Add(Delta({12}, "c")).has_value());

  const v1::GenerateComplete complete =
      encoder.Complete(Completion()).complete();

  EXPECT_EQ(Vector(complete.output_ids()), (std::vector<uint32_t>{10, 11, 12}));
  EXPECT_EQ(complete.text(), "abc");
  EXPECT_EQ(complete.usage().completion_tokens(), 3u);
  ASSERT_EQ(complete.output_logprobs_size(), 3);
  EXPECT_EQ(complete.output_logprobs(2).token_id(), 12u);
  EXPECT_EQ(complete.output_logprobs(2).top_size(), 2);
  EXPECT_EQ(complete.prompt().text(), "the prompt");
}

TEST(ResponseCodecTest, ReasonsToFinish) {
  Completion string_matched;
  string_matched.matched = std::string("END");

  const v1::GenerateComplete stop =
      Encoder(OneRequest(false)).Complete(string_matched).complete();
  const v1::GenerateComplete length =
      Encoder(OneRequest(false)).Complete(Completion()).complete();

  EXPECT_EQ(stop.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(stop.matched_stop_str(), "END");
  EXPECT_EQ(length.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(length.matched_stop_case(),
            v1::GenerateComplete::MATCHED_STOP_NOT_SET);
}

TEST(ResponseCodecTest, LogprobsComeIfTheyWereAskedFor) {
  ResponseEncoder encoder = Encoder(OneRequest(/*logprobs=*/true));

  const v1::GenerateChunk chunk = Chunk(encoder, Delta({10}, "a"));

  ASSERT_EQ(chunk.output_logprobs_size(), 1);
  const v1::TokenLogprob& logprob = chunk.output_logprobs(0);
  EXPECT_EQ(logprob.token_id(), 10u);
  EXPECT_EQ(logprob.logprob(), -0.5f);
  ASSERT_EQ(logprob.top_size(), 2);
  EXPECT_EQ(logprob.top(0).token_id(), 7u);
  EXPECT_EQ(logprob.top(0).logprob(), -0.25f);
}

TEST(ResponseCodecTest, LogprobsHaveTheTextAndBytesOfTheirTokens) {
  struct Case {
    int32_t token;
    std::string text;
    std::string bytes;
  };
  // Words, half a character, a special token, and an id without a token.
  const std::vector<Case> cases = {{258, "abc", "abc"},
                                   {0xC3, "\uFFFD", "\xC3"},
                                   {300, "<s>", "<s>"},
                                   {290, "", ""}};
  ResponseEncoder encoder = Encoder(OneRequest(/*logprobs=*/true));
  for (const Case& c : cases) {
    SCOPED_TRACE(c.token);

    const v1::GenerateChunk chunk = Chunk(encoder, Delta({c.token}, ""));

    const v1::TokenLogprob& logprob = chunk.output_logprobs(0);
    EXPECT_EQ(logprob.text(), c.text);
    EXPECT_EQ(logprob.bytes(), c.bytes);
    ASSERT_EQ(logprob.top_size(), 2);
    EXPECT_EQ(logprob.top(1).text(), c.text);
    EXPECT_EQ(logprob.top(1).bytes(), c.bytes);
  }
}

TEST(ResponseCodecTest, TheFirstChunkAloneTellsThePrompt) {
  Request request = OneRequest(/*logprobs=*/false);
  request.sampling.prompt_logprobs = 2;
  ResponseEncoder encoder = Encoder(request, /*chunks=*/true, "abc");
  TokenDelta delta = Delta({10}, "a");
  delta.prompt_logprobs = Delta({2, 3}, "").tokens;

  const v1::GenerateChunk first = Chunk(encoder, delta);
  const v1::GenerateChunk second = Chunk(encoder, Delta({11}, "b"));

  EXPECT_EQ(Vector(first.prompt().token_ids()),
            (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(first.prompt().text(), "abc");
  ASSERT_EQ(first.prompt().logprobs_size(), 2);
  EXPECT_EQ(first.prompt().logprobs(1).token_id(), 3u);
  EXPECT_EQ(first.prompt().logprobs(1).top_size(), 2);
  EXPECT_FALSE(second.has_prompt());
  EXPECT_FALSE(encoder.Complete(Completion()).complete().has_prompt());
}

TEST(ResponseCodecTest, PromptLogprobsComeWithoutAnEcho) {
  Request request = OneRequest(/*logprobs=*/false);
  request.sampling.prompt_logprobs = 0;
  ResponseEncoder encoder = Encoder(request);
  TokenDelta delta = Delta({10}, "a");
  delta.prompt_logprobs = Delta({2, 3}, "").tokens;

  const v1::GenerateChunk chunk = Chunk(encoder, delta);

  EXPECT_EQ(chunk.prompt().token_ids_size(), 0);
  EXPECT_EQ(chunk.prompt().text(), "");
  EXPECT_EQ(chunk.prompt().logprobs_size(), 2);
}

TEST(ResponseCodecTest, WithoutAnyChunkTheCompleteMessageTellsThePrompt) {
  ResponseEncoder encoder =
      Encoder(OneRequest(/*logprobs=*/false), /*chunks=*/true, "abc");

  EXPECT_EQ(encoder.Complete(Completion()).complete().prompt().text(), "abc");
}

TEST(ResponseCodecTest, WhatIsKeptIsCountedAndSmall) {
  constexpr int kTokens = 1000;
  ResponseEncoder plain = Encoder(OneRequest(/*logprobs=*/false), false);
  ResponseEncoder with_logprobs = Encoder(OneRequest(/*logprobs=*/true), false);
  ResponseEncoder chunks = Encoder(OneRequest(/*logprobs=*/true));
  EXPECT_EQ(plain.kept_bytes(), with_logprobs.kept_bytes());
  TokenDelta delta = Delta({10}, "four");
  delta.tokens[0].top.resize(20, {.token = 'x', .logprob = -1.5f});

  for (int i = 0; i < kTokens; ++i) {
    plain.Add(delta);
    with_logprobs.Add(delta);
    chunks.Add(delta);
  }

  // 4 bytes for the id, 4 for the text; containers may reserve twice as much.
  EXPECT_GE(plain.kept_bytes(), kTokens * 8);
  EXPECT_LE(plain.kept_bytes(), kTokens * 16 + 100);
  // 20 times an id, text and bytes of one byte each, a float, and their tags.
  EXPECT_GE(with_logprobs.kept_bytes(), kTokens * 20 * 13);
  EXPECT_LE(with_logprobs.kept_bytes(), kTokens * 20 * 32);
  EXPECT_EQ(chunks.kept_bytes(), 0u);
  const v1::GenerateResponse end = with_logprobs.Complete(Completion());
  ASSERT_EQ(end.complete().output_logprobs_size(), kTokens);
  EXPECT_EQ(end.complete().output_logprobs(kTokens - 1).top(19).logprob(),
            -1.5f);
}

}  // namespace
}  // namespace bole
