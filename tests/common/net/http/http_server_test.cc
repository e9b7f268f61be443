#include "common/net/http/http_server.h"

#include <sys/socket.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/common/net/http/echo_server.h"
#include "tests/common/net/http/raw_client.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::EchoServer;
using testing::EndsWith;
using testing::Eventually;
using testing::Get;
using testing::RawClient;
using testing::StatusOf;

TEST(HttpServerTest, ReadsARequestThatComesByteByByte) {
  EchoServer served;
  RawClient client(served.port());
  const std::string request =
      "POST /p?q HTTP/1.1\r\nHost: h\r\nX-Request-Id: one\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nT: "
      "u\r\n\r\n";

  for (const char byte : request) {
    ASSERT_TRUE(client.Send(std::string(1, byte)));
    std::this_thread::sleep_for(milliseconds(1));
  }
  const std::string answer = client.ReadAnswer();

  EXPECT_EQ(StatusOf(answer), "200");
  EXPECT_TRUE(EndsWith(answer, "POST /p abcd")) << answer;
  EXPECT_NE(answer.find("X-Request-Id: one\r\n"), std::string::npos);
  EXPECT_NE(answer.find("Connection: keep-alive\r\n"), std::string::npos);
}

TEST(HttpServerTest, AnswersPipelinedRequestsInTheirOrder) {
  EchoServer served;
  RawClient client(served.port());
  std::string all;
  for (int i = 0; i < 2000; ++i) all += Get("/" + std::to_string(i));

  // More than the connection buffers, so that some wait with the client.
  std::thread sender([&] { client.Send(all); });
  for (int i = 0; i < 2000; ++i) {
    const std::string answer = client.ReadAnswer();
    ASSERT_TRUE(EndsWith(answer, "GET /" + std::to_string(i) + " ")) << answer;
  }
  sender.join();
}

TEST(HttpServerTest, APipelinedRequestWaitsForTheStreamBeforeIt) {
  EchoServer served;
  RawClient client(served.port());
  client.Send(Get("/stream") + Get("/next"));
  EXPECT_TRUE(EndsWith(client.ReadUntil("first\n\n"), "d\r\ndata: first\n\n"));
  ASSERT_TRUE(Eventually([&] { return served.echo().streams().size() == 1; }));
  const auto stream = served.echo().streams()[0];
  ASSERT_TRUE(Eventually([&] { return stream->written == 1; }));

  stream->exchange->Write("data: last\n\n", /*last=*/true);

  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"),
            "\r\nc\r\ndata: last\n\n\r\n0\r\n\r\n");
  EXPECT_TRUE(EndsWith(client.ReadAnswer(), "GET /next "));
  EXPECT_TRUE(Eventually([&] { return stream->done == 1; }));
  EXPECT_EQ(stream->gone, 0);
}

TEST(HttpServerTest, AClientThatLeavesIsNoticedWhileItsAnswerStreams) {
  EchoServer served;
  for (const bool half : {false, true}) {
    RawClient client(served.port());
    client.Send(Get("/stream"));
    client.ReadUntil("first\n\n");
    const auto stream = served.echo().streams().back();

    half ? client.EndSending() : client.Close();

    EXPECT_TRUE(Eventually([&] { return stream->done == 1; }));
    EXPECT_EQ(stream->gone, 1);
    stream->exchange->Write("data: late\n\n", /*last=*/false);
  }
  served.echo().Forget();
  EXPECT_TRUE(
      Eventually([&] { return served.server().num_connections() == 0; }));
}

TEST(HttpServerTest, AClientThatSendsNoMoreStillGetsItsAnswers) {
  EchoServer served;
  RawClient client(served.port());
  client.Send(Get("/a") + Get("/b"));
  client.EndSending();

  const std::string answers = client.ReadAll();

  EXPECT_NE(answers.find("GET /a "), std::string::npos);
  EXPECT_TRUE(EndsWith(answers, "GET /b ")) << answers;
}

TEST(HttpServerTest, WhatIsTooLargeIsRefusedBeforeItIsHeld) {
  EchoServer served(
      {.limits = {.max_header_bytes = 4096, .max_body_bytes = 1000}});
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string many = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 100; ++i) many += "A: b\r\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"GET /" + std::string(10000, 'x'), "431"},
      {"GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(10000, 'x'), "431"},
      {many + "\r\n", "431"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n", "413"},
      {chunked + "3e9\r\n", "413"},
      {chunked + "1f4\r\n" + std::string(500, 'x') + "\r\n1f5\r\n", "413"},
      {chunked + "1;" + std::string(20000, 'x'), "400"},
      {chunked + "0\r\nT: " + std::string(20000, 'x'), "400"},
  };
  for (const auto& [request, status] : cases) {
    RawClient client(served.port());
    client.Send(request);

    const std::string answer = client.ReadAll();

    EXPECT_EQ(StatusOf(answer), status) << request.substr(0, 100);
    EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos);
    EXPECT_NE(answer.find("{\"error\":{"), std::string::npos) << answer;
  }
}

TEST(HttpServerTest, WhatIsNoRequestIsRefusedAndCloses) {
  EchoServer served;
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"nonsense\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
      {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", "505"},
      {post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
      {post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
      {post + "Transfer-Encoding: gzip\r\n\r\n", "501"},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n", "501"},
      {post + "Content-Length: -1\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "400"},
      {"POST /none HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", "404"},
  };
  for (const auto& [request, status] : cases) {
    RawClient client(served.port());
    // What follows is no request of its own.
    client.Send(request + Get("/smuggled"));

    const std::string answer = client.ReadAll();

    EXPECT_EQ(StatusOf(answer), status) << request << answer;
    EXPECT_EQ(answer.find("smuggled"), std::string::npos) << request;
  }
}

TEST(HttpServerTest, SlowRequestsEndAndHoldNothing) {
  EchoServer served({.limits = {.header_time = milliseconds(100),
                                .request_time = milliseconds(200),
                                .idle_time = milliseconds(300),
                                .linger_time = milliseconds(100)}});
  std::deque<RawClient> slow;
  for (int i = 0; i < 50; ++i) {
    slow.emplace_back(served.port()).Send("GET / HTTP/1.1\r\nA: b\r\n");
    slow.emplace_back(served.port())
        .Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    slow.emplace_back(served.port());
  }
  for (size_t i = 0; i < slow.size(); i += 3) {
    EXPECT_EQ(StatusOf(slow[i].ReadAll()), "408");
    EXPECT_EQ(StatusOf(slow[i + 1].ReadAll()), "408");
    EXPECT_TRUE(slow[i + 2].AwaitEnd());
  }
  EXPECT_TRUE(
      Eventually([&] { return served.server().num_connections() == 0; }));
}

TEST(HttpServerTest, AnAnswerThatIsNotTakenEndsItsConnection) {
  EchoServer served({.limits = {.max_body_bytes = 8 << 20,
                                .write_time = milliseconds(1),
                                .slowest_bytes_per_second = 1 << 20,
                                .send_buffer_bytes = 4096}});
  RawClient client(served.port(), /*receive_buffer=*/4096);
  const size_t size = 300 << 10;  // 293 ms at the slowest speed.
  const auto start = steady_clock::now();
  client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " +
              std::to_string(size) + "\r\n\r\n" + std::string(size, 'x'));
  ASSERT_TRUE(
      Eventually([&] { return served.server().num_connections() == 1; }));

  EXPECT_TRUE(
      Eventually([&] { return served.server().num_connections() == 0; }));

  EXPECT_GE(steady_clock::now() - start, milliseconds(250));
  EXPECT_LT(client.ReadAll().size(), size);
}

TEST(HttpServerTest, BodiesAreBoundedTogetherAndSmallOnesAlwaysRead) {
  constexpr size_t kPart = 100'000;
  EchoServer served({.limits = {.max_bodies_bytes = 3 * kPart,
                                .uncounted_body_bytes = 1000}});
  const auto post = [](size_t size) {
    return "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " +
           std::to_string(size) + "\r\n\r\n";
  };
  // All of them and what is not sent of each would be too many.
  std::deque<RawClient> holders;
  for (int i = 0; i < 3; ++i) {
    holders.emplace_back(served.port())
        .Send(post(2 * kPart) + std::string(kPart, 'x'));
  }
  ASSERT_TRUE(Eventually(
      [&] { return served.server().body_bytes() == 3 * (kPart - 1000); }));
  RawClient late(served.port());
  late.Send(post(2 * kPart) + std::string(2 * kPart, 'x'));
  const std::string refused = late.ReadAll();
  late.Close();

  EXPECT_EQ(StatusOf(refused), "503");
  EXPECT_NE(refused.find("Retry-After: 1\r\n"), std::string::npos);
  EXPECT_NE(refused.find("Connection: close\r\n"), std::string::npos);
  RawClient little(served.port());
  little.Send(post(1000) + std::string(999, 'x'));
  little.Send("x");
  EXPECT_EQ(StatusOf(little.ReadAnswer()), "200");

  // What they held is there again, however they end.
  holders[0].Close();
  holders[1].Send("no end");
  holders[1].EndSending();
  EXPECT_TRUE(
      Eventually([&] { return served.server().num_connections() == 2; }));
  holders[2].Send(std::string(kPart, 'x'));
  EXPECT_EQ(StatusOf(holders[2].ReadAnswer()), "200");
  for (int i = 0; i < 20; ++i) {
    RawClient again(served.port());
    again.Send(post(3 * kPart) + std::string(3 * kPart, 'x'));
    EXPECT_EQ(StatusOf(again.ReadAnswer()), "200") << i;
  }
  EXPECT_EQ(served.server().body_bytes(), 0u);
}

TEST(HttpServerTest, ListensOnIpv6) {
  testing::Echo echo;
  const auto server = HttpServer::Start({.address = "[::1]:0"}, echo);
  if (absl::IsUnavailable(server.status())) {
    GTEST_SKIP() << "no IPv6 here: " << server.status();
  }
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->address().port;

  RawClient client(port, /*receive_buffer=*/0, AF_INET6);
  client.Send(Get("/six"));

  EXPECT_EQ((*server)->address().ToString(), "[::1]:" + std::to_string(port));
  EXPECT_TRUE(EndsWith(client.ReadAnswer(), "GET /six "));
}

TEST(HttpServerTest, OneConnectionTooManyIsTurnedAway) {
  EchoServer served({.limits = {.max_connections = 2}});
  RawClient first(served.port());
  RawClient second(served.port());
  first.Send(Get("/a"));
  second.Send(Get("/b"));
  first.ReadAnswer();
  second.ReadAnswer();
  RawClient third(served.port());

  EXPECT_EQ(StatusOf(third.ReadAll()), "503");
  first.Close();
  EXPECT_TRUE(
      Eventually([&] { return served.server().num_connections() == 1; }));
  RawClient fourth(served.port());
  fourth.Send(Get("/d"));
  EXPECT_EQ(StatusOf(fourth.ReadAnswer()), "200");
}

TEST(HttpServerTest, HeadAndOldVersionsAndExpectations) {
  EchoServer served;
  RawClient head(served.port());
  head.Send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n" + Get("/b"));
  EXPECT_TRUE(EndsWith(head.ReadUntil("\r\n\r\n"), "\r\n\r\n"));
  EXPECT_TRUE(EndsWith(head.ReadAnswer(), "GET /b "));

  RawClient old(served.port());
  old.Send("GET /stream HTTP/1.0\r\n\r\n");
  old.ReadUntil("\r\n\r\ndata: first\n\n");
  ASSERT_EQ(served.echo().streams().size(), 1u);
  served.echo().streams()[0]->exchange->Write("data: last\n\n", /*last=*/true);
  EXPECT_EQ(old.ReadAll(), "data: last\n\n");

  RawClient expects(served.port());
  expects.Send(
      "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
      "Content-Length: 3\r\n\r\n");
  EXPECT_EQ(expects.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  expects.Send("abc");
  EXPECT_TRUE(EndsWith(expects.ReadAnswer(), "POST / abc"));
}

TEST(HttpServerTest, DrainClosesTheListenerAndLetsAnswersEnd) {
  EchoServer served;
  RawClient idle(served.port());
  idle.Send(Get("/a"));
  idle.ReadAnswer();
  RawClient streams(served.port());
  streams.Send(Get("/stream"));
  streams.ReadUntil("first\n\n");

  served.server().Drain();
  idle.Send(Get("/b"));
  const std::string last = idle.ReadAll();
  served.echo().streams()[0]->exchange->Write("data: last\n\n", /*last=*/true);

  EXPECT_NE(last.find("Connection: close\r\n"), std::string::npos);
  // Its head said that it stays.
  EXPECT_TRUE(
      EndsWith(streams.ReadUntil("0\r\n\r\n"), "last\n\n\r\n0\r\n\r\n"));
  const std::string address = served.server().address().ToString();
  EXPECT_TRUE(Eventually([&] {
    return HttpServer::Start({.address = address}, served.echo()).ok();
  }));
}

TEST(HttpServerTest, AThousandStreamsHaveFewThreads) {
  const auto num_threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = num_threads();
  EchoServer served;
  std::deque<RawClient> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(served.port()).Send(Get("/stream"));
  }
  for (RawClient& client : clients) client.ReadUntil("first\n\n");

  EXPECT_LE(num_threads() - before, 4);
  const auto streams = served.echo().streams();
  ASSERT_EQ(streams.size(), 1000u);
  for (const auto& stream : streams) {
    stream->exchange->Write("data: last\n\n", /*last=*/true);
  }
  for (RawClient& client : clients) {
    EXPECT_TRUE(
        EndsWith(client.ReadUntil("0\r\n\r\n"), "data: last\n\n\r\n0\r\n\r\n"));
  }
}

}  // namespace
}  // namespace bole
