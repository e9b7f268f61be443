#include "scheduler_service/door/request_body.h"

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/served_model.h"

namespace bole {
namespace {

using testing::TinyWorker;

using Ids = std::vector<int32_t>;

RequestBody Body(std::variant<Ids, std::string> prompt) {
  RequestBody body;
  body.prompt = std::move(prompt);
  return body;
}

absl::StatusOr<ChoiceRequests> MakeAll(RequestBody body) {
  static const auto& tokenizer = *testing::MakeTinyTokenizer().release();
  return ToRequests(std::move(body), tokenizer, TinyWorker());
}

absl::StatusOr<std::unique_ptr<Request>> Make(RequestBody body) {
  absl::StatusOr<ChoiceRequests> all = MakeAll(std::move(body));
  if (!all.ok()) return all.status();
  EXPECT_EQ(all->requests.size(), 1u);
  return std::move(all->requests[0]);
}

TEST(RequestBodyTest, IdsAreThePrompt) {
  const auto request = Make(Body(Ids{1, 302, 0}));

  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ((*request)->prompt, (Ids{1, 302, 0}));
}

TEST(RequestBodyTest, TextIsTokenizedSpecialTokensIncluded) {
  const auto request = Make(Body(std::string("abc<s>")));

  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ((*request)->prompt, (Ids{'a', 257, 300}));
}

TEST(RequestBodyTest, AnIdIsKeptOrMadeUp) {
  std::set<std::string> made_up;
  for (int i = 0; i < 100; ++i) made_up.insert((*Make(Body(Ids{1})))->id);
  RequestBody body = Body(Ids{1});
  body.id = std::string(kMaxRequestIdBytes, 'i');

  EXPECT_EQ(made_up.size(), 100u);
  EXPECT_EQ(made_up.count(""), 0u);
  EXPECT_EQ((*Make(body))->id, body.id);
}

TEST(RequestBodyTest, MaxTokensIsWhatFitsUnlessItIsLess) {
  RequestBody body = Body(Ids(60, 1));
  EXPECT_EQ((*Make(body))->sampling.max_tokens, 40);

  body.sampling.max_tokens = 40;
  EXPECT_EQ((*Make(body))->sampling.max_tokens, 40);

  body.sampling.max_tokens = 39;
  EXPECT_EQ((*Make(body))->sampling.max_tokens, 39);

  body.sampling.max_tokens = 1 << 30;
  EXPECT_EQ((*Make(body))->sampling.max_tokens, 40);
}

TEST(RequestBodyTest, APromptMayLeaveRoomForOneToken) {
  const auto request = Make(Body(Ids(99, 1)));

  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ((*request)->sampling.max_tokens, 1);
}

TEST(RequestBodyTest, FewPagesHoldLessThanTheContext) {
  StepLimits limits = TinyWorker().limits;
  EXPECT_EQ(ContextCapacity(limits), 100);

  // 80 rows, of which a tree of depth 3 needs those behind the tokens.
  limits.num_pages = 10;
  const int capacity = ContextCapacity(limits);
  EXPECT_EQ(limits.KvRows(capacity, 0, limits.max_draft), 80);

  limits.num_pages = 1;
  limits.page_size = 1;
  EXPECT_EQ(ContextCapacity(limits), 0);
}

TEST(RequestBodyTest, TheModelsStopTokensAddToTheRequests) {
  RequestBody body = Body(Ids{1});
  body.sampling.stop_token_ids = {7, 300};

  EXPECT_EQ((*Make(body))->stop_tokens, (Ids{7, 300, 302}));

  body.sampling.ignore_eos = true;
  EXPECT_EQ((*Make(body))->stop_tokens, (Ids{7, 300}));
}

TEST(RequestBodyTest, WhatIsResumedIsNoPromptAndCountsAgainstTheLimit) {
  RequestBody body = Body(Ids{1});
  body.resumed = {{.output = {'a', 'b'}}};
  body.sampling.max_tokens = 3;
  body.priority = -100;

  const auto request = Make(body);

  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ((*request)->prompt, (Ids{1}));
  EXPECT_EQ((*request)->resumed, (Ids{'a', 'b'}));
  EXPECT_EQ((*request)->sampling.max_tokens, 3);
  EXPECT_EQ((*request)->priority, -100);
}

TEST(RequestBodyTest, ChoicesDifferInNumberAndSeed) {
  RequestBody body = Body(std::string("abc"));
  body.num_choices = 3;
  body.sampling.seed = UINT64_MAX;
  body.sampling.max_tokens = 5;
  body.text.stop = {"END"};
  body.targets = {.time_per_output_token = std::chrono::milliseconds(20)};

  const auto choices = MakeAll(body);

  ASSERT_TRUE(choices.ok()) << choices.status();
  ASSERT_EQ(choices->requests.size(), 3u);
  const Request& first = *choices->requests[0];
  for (uint32_t i = 0; i < 3; ++i) {
    const Request& request = *choices->requests[i];
    EXPECT_EQ(request.choice, i);
    EXPECT_EQ(request.sampling.seed, UINT64_MAX + i);
    EXPECT_EQ(request.id, first.id);
    EXPECT_EQ(request.prompt, first.prompt);
    EXPECT_EQ(request.stop_tokens, first.stop_tokens);
    EXPECT_EQ(request.sampling.max_tokens, 5);
    EXPECT_EQ(request.targets.time_per_output_token,
              std::chrono::milliseconds(20));
    EXPECT_EQ(request.text.stop, (std::vector<std::string>{"END"}));
  }
}

TEST(RequestBodyTest, ChoicesThatAreCompleteDoNotRun) {
  RequestBody body = Body(Ids{1});
  body.num_choices = 3;
  body.sampling.seed = 7;
  body.sampling.prompt_logprobs = 2;
  body.resumed = {{.complete = true}, {.output = {'a'}}, {.output = {}}};

  const auto choices = MakeAll(body);

  ASSERT_TRUE(choices.ok()) << choices.status();
  ASSERT_EQ(choices->requests.size(), 2u);
  const Request& second = *choices->requests[0];
  EXPECT_EQ(second.choice, 1u);
  EXPECT_EQ(second.sampling.seed, 8u);
  EXPECT_EQ(second.resumed, (Ids{'a'}));
  EXPECT_EQ(choices->requests[1]->choice, 2u);
  EXPECT_TRUE(choices->requests[1]->resumed.empty());
  // The first that runs tells them.
  EXPECT_EQ(second.sampling.prompt_logprobs, 2);
  EXPECT_FALSE(choices->requests[1]->sampling.prompt_logprobs.has_value());
}

TEST(RequestBodyTest, ThePromptIsEchoedAsItWasTokenizedOrDecoded) {
  RequestBody text = Body(std::string("abc<s>"));
  RequestBody ids = Body(Ids{'a', 257, 300});
  EXPECT_FALSE(MakeAll(text)->echo.has_value());
  text.echo = true;
  ids.echo = true;

  EXPECT_EQ(MakeAll(text)->echo, "abc<s>");
  EXPECT_EQ(MakeAll(ids)->echo, "abc<s>");
}

struct Wrong {
  std::string name;
  std::function<void(RequestBody&)> spoil;
  std::string field;
  std::string value;
};

class WrongBodyTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongBodyTest, IsRefusedWithFieldAndValue) {
  RequestBody body = Body(Ids{1});
  GetParam().spoil(body);

  const absl::Status status = Make(body).status();

  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  const std::string text(status.message());
  EXPECT_NE(text.find(GetParam().field), text.npos) << text;
  EXPECT_NE(text.find(GetParam().value), text.npos) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Fields, WrongBodyTest,
    ::testing::Values(
        Wrong{"long_id", [](RequestBody& b) { b.id = std::string(129, 'i'); },
              "request_id", "129"},
        Wrong{"id_not_utf8", [](RequestBody& b) { b.id = "\xFF"; },
              "request_id", "'?'"},
        Wrong{"no_tokens", [](RequestBody& b) { b.prompt = Ids(); },
              "prompt tokens", "0"},
        Wrong{"empty_text", [](RequestBody& b) { b.prompt = std::string(); },
              "prompt tokens", "0"},
        Wrong{"token_outside_the_vocabulary",
              [](RequestBody& b) {
                b.prompt = Ids{1, 303};
              },
              "prompt token 1", "303"},
        Wrong{"token_beyond_int32",
              [](RequestBody& b) {
                b.prompt = Ids{1, -1};
              },
              "prompt token 1", "4294967295"},
        Wrong{"prompt_as_long_as_the_context",
              [](RequestBody& b) { b.prompt = std::string(100, 'q'); },
              "prompt", "100"},
        Wrong{"ids_as_long_as_the_context",
              [](RequestBody& b) { b.prompt = Ids(101, 1); }, "prompt", "100"},
        Wrong{"text_of_too_many_bytes",
              [](RequestBody& b) {
                b.prompt = std::string(kMaxTextBytes + 1, 'q');
              },
              "text", "2097153"},
        Wrong{"priority_too_high", [](RequestBody& b) { b.priority = 101; },
              "priority", "101"},
        Wrong{"priority_too_low", [](RequestBody& b) { b.priority = -101; },
              "priority", "-101"},
        Wrong{"resumed_token_outside_the_vocabulary",
              [](RequestBody& b) {
                b.resumed = {{.output = Ids{1, 303}}};
              },
              "resume[0] token 1", "303"},
        Wrong{"resumed_as_long_as_max_tokens",
              [](RequestBody& b) {
                b.sampling.max_tokens = 2;
                b.resumed = {{.output = Ids{1, 2}}};
              },
              "resume[0] tokens", "2"},
        Wrong{"resumed_after_a_stop_token",
              [](RequestBody& b) {
                b.resumed = {{.output = Ids{'a', 300, 'b'}}};
              },
              "resume[0] token 1", "300"},
        Wrong{"resumed_after_a_stop_string",
              [](RequestBody& b) {
                b.text.stop = {"bc"};
                b.resumed = {{.output = Ids{'a', 'b', 'c', 'd'}}};
              },
              "resume[0]", "'bc'"},
        Wrong{"resumed_choice_that_has_ended",
              [](RequestBody& b) {
                b.num_choices = 3;
                b.resumed = {{.output = Ids{'a'}},
                             {.output = Ids{303}, .complete = true},
                             {.output = Ids{300}}};
              },
              "resume[2] token 0", "300"},
        Wrong{"resumed_choices_that_are_all_complete",
              [](RequestBody& b) {
                b.num_choices = 2;
                b.resumed = {{.complete = true}, {.complete = true}};
              },
              "resume", "complete"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace bole
