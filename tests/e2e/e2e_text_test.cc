// What a client may ask of its text, and how the services tell how it ended.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/tokenizer/tokenizer.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"

namespace bole::e2e {
namespace {

constexpr char kPrompt[] = "def fibonacci(n):\n";

// All tests share one pair of services; each leaves it idle.
class E2eTextTest : public ::testing::Test {
 protected:
  static System& system() {
    static System system;
    return system;
  }
  static const Tokenizer& tokenizer() {
    static const auto tokenizer = Tokenizer::Load("models/demo/tokenizer.json");
    BOLE_CHECK(tokenizer.ok());
    return **tokenizer;
  }
  // 64 greedy tokens, no stop.
  static const Generation& baseline() {
    static const Generation baseline = Run(GreedyRequest(kPrompt, 64));
    return baseline;
  }

  void TearDown() override { system().ExpectIdle(); }

  static Generation Run(const v1::GenerateRequest& request) {
    Generation generation = Generate(system().stub(), request);
    EXPECT_TRUE(generation.status.ok()) << generation.status.error_message();
    if (!generation.complete) generation.complete.emplace();
    return generation;
  }

  // The text of the first `count` tokens without any stop.
  static std::string TextOf(size_t count) {
    const std::vector<int32_t> ids = baseline().ids();
    return tokenizer().Decode({ids.data(), count},
                              /*skip_special_tokens=*/true);
  }

  // The fewest tokens whose text holds `stop`.
  static size_t TokensUntil(const std::string& stop) {
    size_t count = 1;
    while (TextOf(count).find(stop) == std::string::npos) ++count;
    return count;
  }

  // A piece of the baseline's text that begins and ends inside of tokens, and
  // spans some.
  static std::string SomeStop() {
    const size_t begin = TextOf(20).size() + 1;
    return baseline().text().substr(begin, TextOf(24).size() - 1 - begin);
  }
};

TEST_F(E2eTextTest, ChunksHaveTheTokensTheirTextAndUsageSoFar) {
  const v1::GenerateComplete& complete = *baseline().complete;

  EXPECT_GT(baseline().chunks.size(), 5);
  EXPECT_EQ(baseline().ids().size(), 64);
  EXPECT_EQ(baseline().text(), TextOf(64));
  EXPECT_EQ(complete.usage().completion_tokens(), 64);
  uint32_t tokens = 0;
  for (const v1::GenerateChunk& chunk : baseline().chunks) {
    tokens += chunk.token_ids_size();
    EXPECT_EQ(chunk.usage().completion_tokens(), tokens);
    EXPECT_EQ(chunk.usage().prompt_tokens(), complete.usage().prompt_tokens());
  }
}

TEST_F(E2eTextTest, MaxTokensEndsWithLength) {
  for (const int max_tokens : {1, 2, 7}) {
    SCOPED_TRACE(max_tokens);

    const Generation got = Run(GreedyRequest(kPrompt, max_tokens));

    const std::vector<int32_t> all = baseline().ids();
    EXPECT_EQ(got.ids(),
              (std::vector<int32_t>{all.begin(), all.begin() + max_tokens}));
    EXPECT_EQ(got.text(), TextOf(max_tokens));
    EXPECT_EQ(got.complete->finish_reason(), v1::FINISH_REASON_LENGTH);
    EXPECT_EQ(got.complete->matched_stop_case(),
              v1::GenerateComplete::MATCHED_STOP_NOT_SET);
    EXPECT_EQ(got.complete->usage().completion_tokens(), max_tokens);
  }
}

TEST_F(E2eTextTest, ARequestThatNeedsAllPagesEndsAsWithManyOfThem) {
  v1::GenerateRequest request = GreedyRequest("", 20);
  const std::vector<int32_t> ids = *tokenizer().Encode(kPrompt);
  for (size_t i = 0; i < 960; ++i) {
    request.mutable_token_ids()->add_ids(ids[i % ids.size()]);
  }
  SystemOptions options;
  options.engine.num_pages = 16;
  System small(options);

  const Generation got = Generate(small.stub(), request);

  EXPECT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_EQ(got.ids(), Run(request).ids());
  EXPECT_EQ(got.ids().size(), 20);
  small.ExpectIdle();
  // 16 pages of 64 rows less 29 of the drafter are 995 tokens.
  for (size_t i = 960; i < 995; ++i) {
    request.mutable_token_ids()->add_ids(ids[0]);
  }
  const Generation refused = Generate(small.stub(), request);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.status.error_message(),
            "the prompt has 995 tokens or more; the worker holds 995 of a "
            "request, at least one of them new");
}

TEST_F(E2eTextTest, AStopStringEndsTextIdsAndUsageWhereItIsComplete) {
  const std::string stop = SomeStop();
  const std::string all = baseline().text();
  for (const bool include : {false, true}) {
    SCOPED_TRACE(include);
    v1::GenerateRequest request = GreedyRequest(kPrompt, 64);
    request.mutable_sampling_params()->add_stop("\u00E9 never");
    request.mutable_sampling_params()->add_stop(stop);
    request.mutable_sampling_params()->set_include_stop_str_in_output(include);

    const Generation got = Run(request);

    const v1::GenerateComplete& complete = *got.complete;
    const size_t end = all.find(stop) + (include ? stop.size() : 0);
    EXPECT_EQ(got.text(), all.substr(0, end));
    EXPECT_EQ(complete.finish_reason(), v1::FINISH_REASON_STOP);
    EXPECT_EQ(complete.matched_stop_str(), stop);
    EXPECT_EQ(got.ids().size(), TokensUntil(stop));
    EXPECT_EQ(complete.usage().completion_tokens(), TokensUntil(stop));
  }
}

TEST_F(E2eTextTest, TextThatOnlyBeginsAStopStringIsNotLost) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 40);
  const std::string text = TextOf(40);
  request.mutable_sampling_params()->add_stop(text.substr(text.size() - 5) +
                                              "\u00E9 never");

  const Generation got = Run(request);

  EXPECT_EQ(got.text(), text);
  EXPECT_EQ(got.complete->finish_reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(E2eTextTest, AStopTokenEndsTheOutputAndIsNotInTheText) {
  const std::vector<int32_t> all = baseline().ids();
  const int32_t stop = all[30];
  const size_t first = std::find(all.begin(), all.end(), stop) - all.begin();
  v1::GenerateRequest request = GreedyRequest(kPrompt, 64);
  request.mutable_sampling_params()->add_stop_token_ids(stop);

  const Generation got = Run(request);

  EXPECT_EQ(got.ids(),
            (std::vector<int32_t>{all.begin(), all.begin() + first + 1}));
  EXPECT_EQ(got.text(), TextOf(first));
  EXPECT_EQ(got.complete->finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(got.complete->matched_token_id(), stop);
}

TEST_F(E2eTextTest, TheModelsOwnStopTokenEndsTheOutputUnlessItIsIgnored) {
  grpc::ClientContext context;
  v1::GetModelInfoResponse info;
  ASSERT_TRUE(system().stub().GetModelInfo(&context, {}, &info).ok());
  ASSERT_GT(info.eos_token_ids_size(), 0);
  const uint32_t eos = info.eos_token_ids(0);
  v1::GenerateRequest request = GreedyRequest(kPrompt, 5);
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  (*sampling.mutable_logit_bias())[static_cast<int32_t>(eos)] = 100;

  const Generation ignored = Run(request);
  sampling.set_ignore_eos(false);
  const Generation obeyed = Run(request);

  EXPECT_EQ(ignored.ids().size(), 5);
  EXPECT_EQ(obeyed.ids(), std::vector<int32_t>{static_cast<int32_t>(eos)});
  EXPECT_EQ(obeyed.complete->matched_token_id(), eos);
  EXPECT_EQ(obeyed.text(), "");
}

TEST_F(E2eTextTest, WithoutStreamingThereIsTheCompleteMessageAlone) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 64);
  request.set_stream(false);

  const Generation got = Run(request);

  EXPECT_TRUE(got.chunks.empty());
  EXPECT_EQ(got.ids(), baseline().ids());
  EXPECT_EQ(got.text(), baseline().text());
}

TEST_F(E2eTextTest, ChatIsItsRenderingAsText) {
  v1::ChatInput chat;
  v1::ChatMessage& rules = *chat.add_messages();
  rules.set_role("system");
  rules.set_content("You write Python.");
  v1::ChatMessage& user = *chat.add_messages();
  user.set_role("user");
  user.set_content("Add two numbers.");
  v1::TokenizeRequest rendering;
  *rendering.mutable_chat() = chat;
  v1::TokenizeResponse rendered;
  grpc::ClientContext context;
  ASSERT_TRUE(system().stub().Tokenize(&context, rendering, &rendered).ok());
  EXPECT_NE(rendered.text().find("Add two numbers."), std::string::npos);
  v1::GenerateRequest by_chat = GreedyRequest("", 24);
  *by_chat.mutable_chat() = chat;
  v1::GenerateRequest by_ids = GreedyRequest("", 24);
  *by_ids.mutable_token_ids()->mutable_ids() = rendered.input_ids();

  const Generation of_chat = Run(by_chat);
  const Generation of_text = Run(GreedyRequest(rendered.text(), 24));
  const Generation of_ids = Run(by_ids);

  EXPECT_EQ(of_chat.ids(), of_text.ids());
  EXPECT_EQ(of_chat.ids(), of_ids.ids());
  EXPECT_EQ(of_chat.text(), of_text.text());
  EXPECT_EQ(of_chat.complete->usage().prompt_tokens(),
            rendered.input_ids_size());
}

TEST_F(E2eTextTest, TokensComeBackFromDetokenize) {
  v1::DetokenizeRequest request;
  const std::vector<int32_t> ids = baseline().ids();
  request.mutable_ids()->Assign(ids.begin(), ids.end());
  request.set_skip_special_tokens(true);
  v1::DetokenizeResponse response;
  grpc::ClientContext context;

  ASSERT_TRUE(system().stub().Detokenize(&context, request, &response).ok());

  EXPECT_EQ(response.text(), baseline().text());
}

TEST_F(E2eTextTest, LogitBiasForbidsAndForcesTokens) {
  const int32_t first = baseline().ids()[0];
  v1::GenerateRequest request = GreedyRequest(kPrompt, 8);
  auto& bias = *request.mutable_sampling_params()->mutable_logit_bias();

  bias[first] = -100;
  const Generation forbidden = Run(request);
  bias.clear();
  bias[1234] = 100;
  const Generation forced = Run(request);

  for (const int32_t id : forbidden.ids()) EXPECT_NE(id, first);
  EXPECT_EQ(forced.ids(), std::vector<int32_t>(8, 1234));
}

TEST_F(E2eTextTest, AsManyLogprobsComeAsWereAskedFor) {
  for (const int count : {0, 1, 20}) {
    SCOPED_TRACE(count);
    v1::GenerateRequest request = GreedyRequest(kPrompt, 12);
    request.mutable_sampling_params()->set_logprobs(count);

    const Generation got = Run(request);

    const std::vector<v1::TokenLogprob> logprobs = got.logprobs();
    ASSERT_EQ(logprobs.size(), 12);
    for (int i = 0; i < 12; ++i) {
      const v1::TokenLogprob& logprob = logprobs[i];
      EXPECT_EQ(logprob.token_id(), got.ids()[i]);
      EXPECT_LE(logprob.logprob(), 0);
      ASSERT_EQ(logprob.top_size(), count);
      for (int k = 1; k < count; ++k) {
        EXPECT_LE(logprob.top(k).logprob(), logprob.top(k - 1).logprob());
      }
      // Greedy: the token is the likeliest.
      if (count > 0) {
        EXPECT_EQ(logprob.top(0).token_id(), logprob.token_id());
      }
    }
  }
}

TEST_F(E2eTextTest, WithoutTheWishThereAreNoLogprobs) {
  EXPECT_TRUE(baseline().logprobs().empty());
}

TEST_F(E2eTextTest, RequestIdsAreEchoedOrMadeUp) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 1);
  request.set_request_id("mine");
  const Generation mine = Run(request);
  std::set<std::string> made_up;
  request.clear_request_id();

  for (int i = 0; i < 8; ++i) made_up.insert(Run(request).request_id);

  EXPECT_EQ(mine.request_id, "mine");
  EXPECT_EQ(made_up.size(), 8);
}

TEST_F(E2eTextTest, TheSeedThatWasDrawnRepeatsTheText) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 24);
  request.mutable_sampling_params()->set_temperature(1);
  const Generation drawn = Run(request);
  request.mutable_sampling_params()->set_seed(drawn.complete->seed());

  const Generation again = Run(request);
  request.mutable_sampling_params()->set_seed(drawn.complete->seed() + 1);
  const Generation other = Run(request);

  EXPECT_EQ(again.ids(), drawn.ids());
  EXPECT_EQ(again.complete->seed(), drawn.complete->seed());
  EXPECT_NE(other.ids(), drawn.ids());
}

TEST_F(E2eTextTest, TimesAreInOrderAndDraftsAreCounted) {
  const v1::GenerateComplete& complete = *baseline().complete;

  EXPECT_GE(complete.timing().queue_seconds(), 0);
  EXPECT_GE(complete.timing().first_token_seconds(),
            complete.timing().queue_seconds());
  EXPECT_GE(complete.timing().total_seconds(),
            complete.timing().first_token_seconds());
  // The first token belongs to no round. Every round emits what it accepted and
  // one token more, but for the last if max_tokens cuts that off.
  const uint32_t emitted = 1 + complete.speculation().rounds() +
                           complete.speculation().accepted_drafts();
  EXPECT_GE(emitted, complete.usage().completion_tokens());
  EXPECT_LE(emitted, complete.usage().completion_tokens() + 1);
  EXPECT_GT(complete.speculation().accepted_drafts(), 0);
}

TEST_F(E2eTextTest, SpecialTokensAreInTheTextIfAskedFor) {
  grpc::ClientContext context;
  v1::GetModelInfoResponse info;
  ASSERT_TRUE(system().stub().GetModelInfo(&context, {}, &info).ok());
  const int32_t eos = static_cast<int32_t>(info.eos_token_ids(0));
  v1::GenerateRequest request = GreedyRequest(kPrompt, 2);
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  (*sampling.mutable_logit_bias())[eos] = 100;

  const Generation skipped = Run(request);
  sampling.set_skip_special_tokens(false);
  const Generation shown = Run(request);

  const std::string name(tokenizer().TokenBytes(eos));
  EXPECT_EQ(skipped.text(), "");
  EXPECT_EQ(shown.text(), name + name);
}

TEST_F(E2eTextTest, AStreamGoesOnFromEveryPosition) {
  v1::GenerateRequest request = GreedyRequest(kPrompt, 24);
  request.mutable_sampling_params()->set_temperature(0.9f);
  request.mutable_sampling_params()->set_presence_penalty(0.5f);
  request.mutable_sampling_params()->set_repetition_penalty(1.1f);
  request.mutable_sampling_params()->set_seed(7);
  const Generation whole = Run(request);
  const std::vector<int32_t> ids = whole.ids();
  ASSERT_GE(ids.size(), 10u);

  v1::ResumedChoice& had = *request.add_resume();
  for (size_t count = 1; count < ids.size(); ++count) {
    SCOPED_TRACE(count);
    had.add_output_ids(ids[count - 1]);
    const Generation rest = Run(request);

    EXPECT_EQ(rest.ids(), std::vector<int32_t>(ids.begin() + count, ids.end()));
    EXPECT_TRUE(whole.text().ends_with(rest.text())) << rest.text();
    EXPECT_EQ(rest.complete->usage().completion_tokens(), ids.size());
    EXPECT_EQ(rest.complete->finish_reason(), whole.complete->finish_reason());
  }
}

}  // namespace
}  // namespace bole::e2e
