// Calls over HTTP: to a server that says what a test tells it to, and to the
// scheduler's own door.
#include "clients/bench/http_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/bench/grpc_transport.h"
#include "clients/sdk/client.h"
#include "common/http_url.h"
#include "common/mutex.h"
#include "nlohmann/json.hpp"
#include "tests/clients/bench/http_listener.h"
#include "tests/common/net/test_certificates.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/simulated_worker.h"
#include "tests/scheduler_service/tiny_system.h"
#include "tests/worker_service/model/files.h"

namespace bole::bench {
namespace {

using nlohmann::json;
using testing_support::HttpListener;

// A call and all that came of it.
struct Call {
  Mutex mutex;
  CondVar changed;
  std::string text ABSL_GUARDED_BY(mutex);
  std::vector<uint32_t> ids ABSL_GUARDED_BY(mutex);
  v1::GenerateComplete complete ABSL_GUARDED_BY(mutex);
  std::optional<CallEnd> end ABSL_GUARDED_BY(mutex);
  std::shared_ptr<TransportCall> sent;

  CallEnd Wait() {
    MutexLock lock(mutex);
    while (!end) changed.Wait(mutex);
    return *end;
  }
  std::string Text() {
    MutexLock lock(mutex);
    return text;
  }
  std::vector<uint32_t> Ids() {
    MutexLock lock(mutex);
    return ids;
  }
  v1::GenerateComplete Complete() {
    MutexLock lock(mutex);
    return complete;
  }
  void WaitForTokens(size_t count) {
    MutexLock lock(mutex);
    while (!end && ids.size() < count) changed.Wait(mutex);
  }
};

std::shared_ptr<Call> Send(Transport& transport, v1::GenerateRequest request,
                           std::optional<double> timeout = std::nullopt) {
  auto call = std::make_shared<Call>();
  call->sent = transport.Send(
      std::move(request), timeout,
      {.on_response =
           [call](const v1::GenerateResponse& response) {
             MutexLock lock(call->mutex);
             call->text += response.chunk().text();
             const auto& ids = response.chunk().token_ids();
             call->ids.insert(call->ids.end(), ids.begin(), ids.end());
             if (response.has_complete()) call->complete = response.complete();
             call->changed.NotifyAll();
           },
       .on_end =
           [call](CallEnd end) {
             MutexLock lock(call->mutex);
             EXPECT_FALSE(call->end.has_value()) << "a second end";
             call->end = std::move(end);
             call->changed.NotifyAll();
           }});
  return call;
}

std::shared_ptr<HttpTransport> TransportTo(int port,
                                           const std::string& path = "") {
  auto transport = HttpTransport::Create(
      {.url = *ParseHttpUrl(absl::StrCat("http://127.0.0.1:", port, path)),
       .authorization = "Bearer secret"});
  EXPECT_TRUE(transport.ok()) << transport.status();
  return *transport;
}

v1::GenerateRequest Ids(std::vector<uint32_t> ids, int max_tokens) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  request.mutable_sampling_params()->set_max_tokens(max_tokens);
  return request;
}

std::string Chunk(const std::string& bytes) {
  return absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n");
}

std::string Event(const std::string& text, int id) {
  return absl::StrCat("data: {\"choices\":[{\"index\":0,\"text\":\"", text,
                      "\",\"token_ids\":[", id, "]}]}\n\n");
}

constexpr char kStreamHead[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";
constexpr char kDone[] = "data: [DONE]\n\n";
constexpr char kLastChunk[] = "0\r\n\r\n";

std::string Refusal(const std::string& status, const std::string& headers,
                    const std::string& body) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\n", headers,
                      "Content-Length: ", body.size(), "\r\n\r\n", body);
}

TEST(HttpTransportTest, ARequestIsInOpenAisWords) {
  HttpListener listener;
  const auto transport = TransportTo(listener.port(), "/base/v1/");
  v1::GenerateRequest request = Ids({3, 4}, 5);
  request.set_model("m");
  request.mutable_sampling_params()->set_ignore_eos(true);
  request.mutable_sampling_params()->set_temperature(0.5);
  request.mutable_sampling_params()->add_stop("x");
  request.mutable_targets()->set_time_to_first_token_ms(9);
  const auto call = Send(*transport, request);

  auto connection = listener.Accept();
  const std::string body = connection->ReadBody();
  const std::string& head = connection->last_head();
  EXPECT_TRUE(absl::StartsWith(head, "POST /base/v1/completions HTTP/1.1\r\n"));
  EXPECT_TRUE(absl::StrContains(
      head, absl::StrCat("Host: 127.0.0.1:", listener.port(), "\r\n")));
  EXPECT_TRUE(absl::StrContains(head, "Authorization: Bearer secret\r\n"));
  EXPECT_EQ(json::parse(body),
            json::parse(R"({"model":"m","prompt":[3,4],"max_tokens":5,
                "temperature":0.5,"ignore_eos":true,"stop":["x"],
                "targets":{"ttft_ms":9},"stream":true,
                "stream_options":{"include_usage":true},
                "return_token_ids":true})"));
  connection->Write(kStreamHead + Chunk(Event("a", 7) + kDone) + kLastChunk);
  EXPECT_TRUE(call->Wait().status.ok()) << call->Wait().status;
  EXPECT_EQ(call->Text(), "a");
  EXPECT_EQ(call->Ids(), std::vector<uint32_t>{7});
}

TEST(HttpTransportTest, MessagesGoToTheChat) {
  HttpListener listener;
  const auto transport = TransportTo(listener.port());
  v1::GenerateRequest request;
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("hi");
  const auto call = Send(*transport, request);

  auto connection = listener.Accept();
  EXPECT_EQ(json::parse(connection->ReadBody())["messages"],
            json::parse(R"([{"role":"user","content":"hi"}])"));
  EXPECT_TRUE(
      absl::StartsWith(connection->last_head(), "POST /v1/chat/completions "));
  connection->Close();
  EXPECT_TRUE(absl::IsUnavailable(call->Wait().status));
}

TEST(HttpTransportTest, AConnectionIsUsedAgainAndReplacedWhenItWasClosed) {
  HttpListener listener;
  const auto transport = TransportTo(listener.port());
  const auto first = Send(*transport, Ids({1}, 1));
  auto connection = listener.Accept();
  connection->ReadBody();
  connection->Write(kStreamHead + Chunk(Event("a", 1) + kDone) + kLastChunk);
  ASSERT_TRUE(first->Wait().status.ok());

  const auto second = Send(*transport, Ids({1}, 1));
  connection->ReadBody();
  connection->Write(kStreamHead + Chunk(kDone) + kLastChunk);
  ASSERT_TRUE(second->Wait().status.ok());

  connection->Close();
  const auto third = Send(*transport, Ids({1}, 1));
  auto another = listener.Accept();
  another->ReadBody();
  another->Write(kStreamHead + Chunk(Event("b", 2)));
  third->WaitForTokens(1);
  another->Close();
  const CallEnd broken = third->Wait();
  EXPECT_TRUE(absl::IsUnavailable(broken.status)) << broken.status;
  EXPECT_EQ(third->Text(), "b");
  EXPECT_EQ(listener.num_accepted(), 2);
}

TEST(HttpTransportTest, RefusalsHaveCodeReasonAndTime) {
  HttpListener listener;
  const auto transport = TransportTo(listener.port());
  const auto call = Send(*transport, Ids({1}, 1));
  auto connection = listener.Accept();
  connection->ReadBody();
  connection->Write(
      Refusal("429 Too Many Requests", "Retry-After: 2\r\n",
              R"({"error":{"message":"3 wait","type":"rate_limit_error",)"
              R"("param":null,"code":"queue_requests"}})"));

  const CallEnd end = call->Wait();
  EXPECT_EQ(end.status, absl::ResourceExhaustedError("3 wait"));
  EXPECT_EQ(end.reason, "QUEUE_REQUESTS");
  EXPECT_EQ(end.retry_after_seconds, 2);
}

TEST(HttpTransportTest, WhatIsNoHttpIsUnavailable) {
  HttpListener listener;
  const auto transport = TransportTo(listener.port());
  const auto call = Send(*transport, Ids({1}, 1));
  auto connection = listener.Accept();
  connection->ReadBody();
  connection->Write("SSH-2.0-x\r\n\r\n");

  EXPECT_TRUE(absl::IsUnavailable(call->Wait().status)) << call->Wait().status;
}

TEST(HttpTransportTest, NobodyWhoListensIsUnavailable) {
  const int port = HttpListener().port();
  const auto transport = TransportTo(port);

  const CallEnd end = Send(*transport, Ids({1}, 1))->Wait();

  EXPECT_TRUE(absl::IsUnavailable(end.status)) << end.status;
  EXPECT_TRUE(absl::StrContains(end.status.message(), absl::StrCat(port)));
}

TEST(HttpTransportTest, CancellingAndTheDeadlineCloseTheConnection) {
  HttpListener listener;
  const auto transport = TransportTo(listener.port());
  for (const bool streams : {false, true}) {
    const auto call = Send(*transport, Ids({1}, 1));
    auto connection = listener.Accept();
    connection->ReadBody();
    if (streams) connection->Write(kStreamHead + Chunk(Event("a", 1)));
    if (streams) call->WaitForTokens(1);
    call->sent->Cancel();
    call->sent->Cancel();

    EXPECT_TRUE(absl::IsCancelled(call->Wait().status)) << call->Wait().status;
    EXPECT_TRUE(connection->AwaitEnd());
  }
  const auto late = Send(*transport, Ids({1}, 1), /*timeout=*/0.05);
  auto connection = listener.Accept();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late->Wait().status));
  connection->ReadBody();
  EXPECT_TRUE(connection->AwaitEnd());
}

TEST(HttpTransportTest, CancelsThatRaceWithTheStartEndTheCall) {
  HttpListener listener;
  const auto transport = TransportTo(listener.port());
  for (int i = 0; i < 200; ++i) {
    const auto call = Send(*transport, Ids({1}, 1));
    if (i % 2 == 1) std::this_thread::sleep_for(std::chrono::microseconds(i));
    call->sent->Cancel();
    EXPECT_TRUE(absl::IsCancelled(call->Wait().status)) << call->Wait().status;
  }
}

TEST(HttpTransportTest, ACaFileThatCannotBeReadIsNamed) {
  const auto transport = HttpTransport::Create(
      {.url = *ParseHttpUrl("https://127.0.0.1:1"), .ca_file = "/none/ca.pem"});

  EXPECT_TRUE(absl::IsInvalidArgument(transport.status()));
  EXPECT_TRUE(absl::StrContains(transport.status().message(), "/none/ca.pem"));
}

SchedulerServerOptions WithHttp() {
  SchedulerServerOptions options;
  options.http_address = "127.0.0.1:0";
  return options;
}

TEST(HttpTransportTest, TheDoorAnswersAsGrpcDoes) {
  bole::testing::TinySystem system(WithHttp());
  const auto http = TransportTo(system.server->http_port());
  GrpcTransport grpc(
      {*Client::Create({.address = system.server->address().ToString()})});
  constexpr int kTokens = 40;
  std::vector<std::shared_ptr<Call>> calls;
  for (uint32_t prompt = 2; prompt < 10; ++prompt) {
    for (Transport* transport :
         std::initializer_list<Transport*>{http.get(), &grpc}) {
      v1::GenerateRequest request = Ids({prompt, 3, 4}, kTokens);
      request.mutable_sampling_params()->set_ignore_eos(true);
      calls.push_back(Send(*transport, request));
    }
  }

  for (size_t i = 0; i < calls.size(); i += 2) {
    Call& over_http = *calls[i];
    Call& over_grpc = *calls[i + 1];
    EXPECT_TRUE(over_http.Wait().status.ok()) << over_http.Wait().status;
    EXPECT_TRUE(over_grpc.Wait().status.ok()) << over_grpc.Wait().status;
    EXPECT_EQ(over_http.Ids().size(), kTokens);
    EXPECT_EQ(over_http.Ids(), over_grpc.Ids());
    EXPECT_EQ(over_http.Text(), over_grpc.Text());
    const v1::GenerateComplete complete = over_http.Complete();
    EXPECT_EQ(complete.finish_reason(), over_grpc.Complete().finish_reason());
    EXPECT_EQ(complete.usage().prompt_tokens(), 3u);
    EXPECT_EQ(complete.usage().completion_tokens(), kTokens);
  }
}

TEST(HttpTransportTest, TheDoorAnswersThroughMutualTls) {
  ScopedDirectory files;
  const testing::TestAuthority authority("authority");
  const testing::TestAuthority stranger("stranger");
  const std::string ca = files.Write("ca.pem", authority.cert());
  const auto both = [&](const testing::TestAuthority& by,
                        const std::string& name) {
    const testing::CertifiedKey made = by.Issue("localhost");
    return std::pair(files.Write(name + ".pem", made.cert),
                     files.Write(name + ".key", made.key));
  };
  const auto [server_cert, server_key] = both(authority, "server");
  // TinySystem asks its server in the clear.
  bole::testing::SimulatedService worker(
      bole::testing::SimulatedWorker::SmallLimits());
  ScopedDirectory model;
  model.Write("tokenizer.json", bole::testing::TinyTokenizerJson());
  SchedulerServerOptions options = WithHttp();
  options.models = {"tiny=" + model.path()};
  options.workers = {worker.address()};
  options.tls = {.cert = server_cert, .key = server_key, .client_ca = ca};
  const auto started = SchedulerServer::Start(options);
  ASSERT_TRUE(started.ok()) << started.status();
  SchedulerServer& server = **started;
  ASSERT_TRUE(bole::testing::Eventually(
      [&] { return server.loop().status().num_connected() == 1; }));
  const auto url =
      ParseHttpUrl(absl::StrCat("https://localhost:", server.http_port()));

  for (const auto* by : {&authority, &stranger}) {
    const auto [cert, key] = both(*by, "client");
    const auto http = HttpTransport::Create(
        {.url = *url, .ca_file = ca, .cert_file = cert, .key_file = key});
    ASSERT_TRUE(http.ok()) << http.status();
    const auto call = Send(**http, Ids({2, 3}, 20));
    EXPECT_EQ(call->Wait().status.ok(), by == &authority)
        << call->Wait().status;
  }
  const auto nobody = HttpTransport::Create({.url = *url, .ca_file = ca});
  EXPECT_FALSE(Send(**nobody, Ids({2, 3}, 20))->Wait().status.ok());
  server.Stop();
}

TEST(HttpTransportTest, TheDoorHearsOfACallThatIsCancelled) {
  bole::testing::TinySystem system(WithHttp());
  const auto http = TransportTo(system.server->http_port());
  v1::GenerateRequest request = Ids({2, 3}, 20);
  system.worker.Hold();
  const auto call = Send(*http, request);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  call->sent->Cancel();
  EXPECT_TRUE(absl::IsCancelled(call->Wait().status));
  system.worker.Release();

  const auto next = Send(*http, request);
  EXPECT_TRUE(next->Wait().status.ok()) << next->Wait().status;
}

TEST(HttpTransportTest, TheDoorNamesWhatIsWrong) {
  bole::testing::TinySystem system(WithHttp());
  const auto http = TransportTo(system.server->http_port());

  const CallEnd end = Send(*http, Ids({2}, -1))->Wait();

  EXPECT_TRUE(absl::IsInvalidArgument(end.status)) << end.status;
  EXPECT_TRUE(absl::StrContains(end.status.message(), "max_tokens"));
  EXPECT_EQ(end.reason, "INVALID_VALUE");
}

}  // namespace
}  // namespace bole::bench
