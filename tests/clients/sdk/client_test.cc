// The SDK with a scheduler that says what a test tells it to.
#include "clients/sdk/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/sdk/call_error.h"
#include "clients/sdk/requests.h"
#include "tests/clients/fake_bole_service.h"
#include "tests/clients/sdk/client_fixture.h"
#include "tests/clients/sdk/played_answer.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using testing_support::AnswerOf;
using testing_support::ClientTest;
using testing_support::FakeAnswer;
using testing_support::Gathered;
using testing_support::kTokens;
using testing_support::Play;
using testing_support::QueueIsFull;
using testing_support::Quick;
using testing_support::TextOf;
using testing_support::TokenOf;

TEST_F(ClientTest, AStreamIsReadInALoop) {
  server_.service().SetAnswers({AnswerOf({"Hel", "lo"})});
  const auto client = NewClient();

  const auto stream = client->Generate(TextRequest("hi"));
  std::string text;
  int num_complete = 0;
  for (const v1::GenerateResponse& response : *stream) {
    text += response.chunk().text();
    num_complete += response.has_complete() ? 1 : 0;
  }

  EXPECT_TRUE(stream->status().ok()) << stream->status();
  EXPECT_EQ(text, "Hello");
  EXPECT_EQ(num_complete, 1);
  EXPECT_EQ(stream->Next(), nullptr);
}

TEST_F(ClientTest, ARefusalIsTriedAgainAfterTheServersTime) {
  server_.service().SetAnswers(
      {QueueIsFull("full", 30), QueueIsFull("full", 30), AnswerOf({"a"})});
  const auto client = NewClient();
  const auto start = std::chrono::steady_clock::now();

  const auto stream = client->Generate(TextRequest("hi"));
  const auto choices = ReadAll(*stream);

  ASSERT_TRUE(choices.ok()) << choices.status();
  EXPECT_EQ((*choices)[0].text, "a");
  EXPECT_EQ(stream->stats().retries, 2);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(60));
}

TEST_F(ClientTest, AttemptsAreBounded) {
  server_.service().SetAnswers(
      {{.status = {grpc::StatusCode::UNAVAILABLE, "no worker"}}});

  EXPECT_EQ(ErrorOf().kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(num_requests(), 5u);
  EXPECT_EQ(ErrorOf({.retry = RetryPolicy{.max_attempts = 1}}).message,
            "no worker");
  EXPECT_EQ(num_requests(), 6u);
}

TEST_F(ClientTest, WithoutResumesWhatBreaksAfterOutputHasFailed) {
  server_.service().SetAnswer(
      [](const v1::GenerateRequest& request) { return Play(request, 3); });

  const CallError error = ErrorOf({.retry = RetryPolicy{.max_resumes = 0}});

  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  ASSERT_EQ(num_requests(), 1u);
  EXPECT_FALSE(server_.service().requests()[0].sampling_params().has_seed());
}

// Wherever streams break, and however often, every token comes once.
TEST_F(ClientTest, AStreamThatBreaksGoesOnUnseen) {
  const auto client = NewClient();
  for (const uint32_t n : {1u, 3u}) {
    const int all = static_cast<int>(n) * (kTokens / 2 + 1);
    for (int chunks = 2 * static_cast<int>(n); chunks <= all; ++chunks) {
      SCOPED_TRACE(absl::StrCat(n, " choices break after ", chunks));
      server_.service().SetAnswer([chunks](const v1::GenerateRequest& request) {
        return Play(request, chunks);
      });
      v1::GenerateRequest request = TextRequest("hi");
      request.set_n(n);

      const auto stream = client->Generate(request);
      const auto choices = ReadAll(*stream);

      ASSERT_TRUE(choices.ok()) << choices.status();
      ASSERT_EQ(choices->size(), n);
      EXPECT_EQ(stream->stats().resumes > 0, chunks < all);
      const uint64_t seed = (*choices)[0].complete.seed();
      for (uint32_t c = 0; c < n; ++c) {
        const GeneratedChoice& choice = (*choices)[c];
        ASSERT_EQ(choice.ids.size(), kTokens);
        for (int i = 0; i < kTokens; ++i) {
          EXPECT_EQ(choice.ids[i], TokenOf(seed + c, i));
        }
        EXPECT_EQ(choice.text, TextOf(seed + c));
        EXPECT_EQ(choice.complete.seed(), seed + c);
      }
    }
  }
}

TEST_F(ClientTest, EveryAttemptHasTheSameSeedAndId) {
  server_.service().SetAnswer(
      [](const v1::GenerateRequest& request) { return Play(request, 2); });
  const auto client = NewClient();

  ASSERT_TRUE(ReadAll(*client->Generate(TextRequest("hi"))).ok());

  const auto requests = server_.service().requests();
  ASSERT_GT(requests.size(), 2u);
  for (const v1::GenerateRequest& request : requests) {
    EXPECT_TRUE(request.sampling_params().has_seed());
    EXPECT_EQ(request.sampling_params().seed(),
              requests[0].sampling_params().seed());
    EXPECT_NE(request.request_id(), "");
    EXPECT_EQ(request.request_id(), requests[0].request_id());
  }
}

TEST_F(ClientTest, AnotherTextBehindABreakIsAnErrorAndNotShown) {
  int calls = 0;
  server_.service().SetAnswer([&calls](v1::GenerateRequest request) {
    request.mutable_sampling_params()->set_seed(++calls);
    return Play(request, 3);
  });
  const auto client = NewClient();

  const auto stream = client->Generate(TextRequest("hi"));
  size_t num_tokens = 0;
  for (const v1::GenerateResponse& response : *stream) {
    num_tokens += response.chunk().token_ids_size();
  }

  EXPECT_EQ(ReadError(stream->status()).kind(), ErrorKind::kDiverged);
  EXPECT_EQ(num_tokens, 6u);
}

TEST_F(ClientTest, AnAnswerWithoutAnEndIsAnError) {
  FakeAnswer answer = AnswerOf({"a"});
  answer.responses.pop_back();
  server_.service().SetAnswers({answer});

  EXPECT_EQ(ErrorOf().kind(), ErrorKind::kFailed);
}

TEST_F(ClientTest, EveryCodeHasItsKind) {
  const std::map<grpc::StatusCode, ErrorKind> kinds = {
      {grpc::StatusCode::INVALID_ARGUMENT, ErrorKind::kInvalid},
      {grpc::StatusCode::UNIMPLEMENTED, ErrorKind::kNotOffered},
      {grpc::StatusCode::NOT_FOUND, ErrorKind::kNotFound},
      {grpc::StatusCode::UNAUTHENTICATED, ErrorKind::kUnauthenticated},
      {grpc::StatusCode::PERMISSION_DENIED, ErrorKind::kForbidden},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, ErrorKind::kOverloaded},
      {grpc::StatusCode::DEADLINE_EXCEEDED, ErrorKind::kDeadline},
      {grpc::StatusCode::INTERNAL, ErrorKind::kFailed}};
  for (const auto& [code, kind] : kinds) {
    server_.service().SetAnswers({{.status = {code, "why"}}});
    const CallError error = ErrorOf();
    EXPECT_EQ(error.kind(), kind) << code;
    EXPECT_EQ(error.message, "why");
  }
  EXPECT_EQ(num_requests(), kinds.size());
}

TEST_F(ClientTest, ARefusalKeepsItsDetails) {
  server_.service().SetAnswers({QueueIsFull("full", 750)});

  const CallError error = ErrorOf({.retry = RetryPolicy{.max_attempts = 1}});

  EXPECT_EQ(error.reason, "QUEUE_REQUESTS");
  EXPECT_EQ(error.retry_after, milliseconds(750));
  EXPECT_EQ(error.metadata.at("max"), "2");
}

TEST_F(ClientTest, ADeadlineHoldsForAllAttempts) {
  server_.service().SetAnswers({{.hang = true}});
  EXPECT_EQ(ErrorOf({.timeout = milliseconds(50)}).kind(),
            ErrorKind::kDeadline);

  server_.service().SetAnswers({QueueIsFull("full", 60000)});
  EXPECT_EQ(ErrorOf({.timeout = milliseconds(5000)}).kind(),
            ErrorKind::kOverloaded);
  EXPECT_EQ(num_requests(), 2u);
}

TEST_F(ClientTest, AnAsyncAnswerGoesOnBehindABreakToo) {
  server_.service().SetAnswer(
      [](const v1::GenerateRequest& request) { return Play(request, 3); });
  const auto client = NewClient();
  v1::GenerateRequest request = TextRequest("hi");
  request.mutable_sampling_params()->set_seed(5);
  Gathered gathered;

  client->GenerateAsync(request, gathered.Handlers());

  EXPECT_TRUE(gathered.done.get_future().get().ok());
  EXPECT_EQ(gathered.text, TextOf(5));
  EXPECT_GT(gathered.stats.resumes, 0);
}

TEST_F(ClientTest, TokenAndTenantGoWithEveryCallAndIntoNoError) {
  ClientOptions options = Quick(server_.address());
  const std::string path = testing::TempDir() + "/token";
  std::ofstream(path) << "s3cret\n";
  options.token_file = path;
  options.tenant = "acme";
  server_.service().SetAnswers(
      {{.status = {grpc::StatusCode::UNAUTHENTICATED, "who?"}}});
  const auto client = NewClient(options);

  const auto answer = ReadAll(*client->Generate(TextRequest("hi")));
  EXPECT_EQ(server_.service().metadata("authorization"), "Bearer s3cret");
  EXPECT_EQ(server_.service().metadata("bole-tenant"), "acme");
  EXPECT_THAT(answer.status().ToString(), Not(HasSubstr("s3cret")));

  v1::TokenizeRequest request;
  request.set_text("ab");
  EXPECT_EQ(client->Tokenize(request)->input_ids_size(), 2);
  EXPECT_EQ(server_.service().metadata("authorization"), "Bearer s3cret");
}

TEST(ClientOptionsTest, WhatMakesNoSenseIsNamedWithoutTheToken) {
  const std::map<std::string, ClientOptions> wrong = {
      {"token", {.token = "s3cret\x01"}},
      {"token_file", {.token_file = "/none"}},
      {"tenant", {.tenant = "a b"}},
      {"key_file", {.ca_file = "/none", .cert_file = "/none"}},
      {"ca_file", {.address = "far.example:8400", .token = "s3cret"}}};
  for (const auto& [option, options] : wrong) {
    const auto client = Client::Create(options);
    ASSERT_FALSE(client.ok()) << option;
    const CallError error = ReadError(client.status());
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    ASSERT_EQ(error.violations.size(), 1u);
    EXPECT_EQ(error.violations[0].field, option);
    EXPECT_THAT(client.status().ToString(), Not(HasSubstr("s3cret")));
  }
}

TEST_F(ClientTest, TheOtherCallsAnswerToo) {
  const auto client = NewClient();

  EXPECT_EQ(client->GetModelInfo()->model(), "fake");
  EXPECT_EQ(client->ListModels()->models_size(), 1);
  EXPECT_TRUE(client->GetServerInfo().ok());
  EXPECT_TRUE(client->ListWorkers().ok());
  EXPECT_TRUE(client->GetLoad().ok());
  EXPECT_TRUE(client->Audit().ok());
  v1::DetokenizeRequest request;
  request.add_ids('a');
  EXPECT_EQ(client->Detokenize(request)->text(), "a");
}

}  // namespace
}  // namespace bole
