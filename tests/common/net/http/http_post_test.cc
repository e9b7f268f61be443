#include "common/net/http/http_post.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "common/http_url.h"
#include "common/net/http/http_server.h"
#include "common/net/http/server_tls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/net/http/echo_server.h"
#include "tests/common/net/test_certificates.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// Takes one connection, reads until it has `want`, and answers.
class OneAnswer {
 public:
  OneAnswer(std::string want, std::string answer)
      : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, any, size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ =
        std::thread([this, want = std::move(want), answer = std::move(answer)] {
          const int client = accept(listener_, nullptr, nullptr);
          char buffer[4096];
          while (got_.find(want) == std::string::npos) {
            const ssize_t count = read(client, buffer, sizeof(buffer));
            if (count <= 0) break;
            got_.append(buffer, static_cast<size_t>(count));
          }
          EXPECT_EQ(write(client, answer.data(), answer.size()),
                    static_cast<ssize_t>(answer.size()));
          // Until the other side has closed.
          while (read(client, buffer, sizeof(buffer)) > 0) continue;
          close(client);
        });
  }
  ~OneAnswer() {
    if (thread_.joinable()) thread_.join();
    close(listener_);
  }

  HttpUrl url() const {
    return {.host = "127.0.0.1", .port = port_, .path = "/v1/traces"};
  }
  std::string got() {
    thread_.join();
    return got_;
  }

 private:
  const int listener_;
  int port_ = 0;
  std::string got_;
  std::thread thread_;
};

TEST(HttpPostTest, SendsTheBodyAndTakesAnyGoodStatus) {
  OneAnswer server("{\"a\":1}",
                   "HTTP/1.1 202 Accepted\r\n"
                   "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(PostJson(server.url(), "{\"a\":1}", milliseconds(20'000)),
            absl::OkStatus());
  const std::string got = server.got();
  EXPECT_THAT(got, ::testing::StartsWith("POST /v1/traces HTTP/1.1\r\n"));
  EXPECT_THAT(got, HasSubstr("Host: " + Authority(server.url()) + "\r\n"));
  EXPECT_THAT(got, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(got, HasSubstr("Content-Length: 7\r\n"));
  EXPECT_THAT(got, EndsWith("\r\n\r\n{\"a\":1}"));
}

TEST(HttpPostTest, AnotherStatusIsAnError) {
  OneAnswer server("{}", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(PostJson(server.url(), "{}", milliseconds(20'000)),
            absl::UnavailableError("HTTP status 503"));
}

TEST(HttpPostTest, WhatIsNotHttpIsAnError) {
  OneAnswer server("{}", "nonsense\r\n\r\n");
  EXPECT_THAT(
      std::string(PostJson(server.url(), "{}", milliseconds(20'000)).message()),
      HasSubstr("the answer failed: "));
}

TEST(HttpPostTest, NoAnswerIsAnErrorInTime) {
  OneAnswer server("{}", "");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(PostJson(server.url(), "{}", milliseconds(50)),
            absl::UnavailableError("no answer within 50 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(10'000));
}

TEST(HttpPostTest, NobodyThereIsAnError) {
  HttpUrl url;
  {
    OneAnswer server("", "");
    url = server.url();
    // It takes a connection, so that it ends.
    EXPECT_FALSE(PostJson(url, "{}", milliseconds(50)).ok());
  }
  EXPECT_THAT(std::string(PostJson(url, "{}", milliseconds(20'000)).message()),
              HasSubstr("the connection failed: "));
}

class HttpsPostTest : public ::testing::Test {
 protected:
  // A server that shows a certificate of the authority for `name`.
  std::unique_ptr<testing::EchoServer> Serve(const std::string& name) {
    const testing::CertifiedKey pair = authority_.Issue(name);
    auto tls = ServerTls::Open(
        {.files = {.cert = directory_.Write(name + ".pem", pair.cert),
                   .key = directory_.Write(name + ".key", pair.key)}});
    EXPECT_TRUE(tls.ok()) << tls.status();
    return std::make_unique<testing::EchoServer>(
        HttpServerOptions{.tls = *std::move(tls)});
  }
  static absl::Status Post(int port, const std::string& ca_file) {
    return PostJson({.tls = true, .host = "localhost", .port = port}, "{}",
                    milliseconds(20'000), ca_file);
  }

  const ScopedDirectory directory_;
  const testing::TestAuthority authority_{"authority"};
  const std::string ca_ = directory_.Write("ca.pem", authority_.cert());
};

TEST_F(HttpsPostTest, IsTakenByAServerOfTheAuthority) {
  const auto server = Serve("localhost");

  EXPECT_EQ(Post(server->port(), ca_), absl::OkStatus());
}

TEST_F(HttpsPostTest, AServerOfAnotherAuthorityOrNameGetsNothing) {
  const auto server = Serve("localhost");
  const auto other = Serve("elsewhere");
  const testing::TestAuthority stranger("stranger");
  const std::string strange = directory_.Write("no.pem", stranger.cert());
  for (const auto& [port, ca_file] :
       {std::pair(server->port(), strange), std::pair(other->port(), ca_),
        std::pair(server->port(), std::string())}) {
    const absl::Status status = Post(port, ca_file);

    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("TLS failed: "));
  }
}

TEST_F(HttpsPostTest, AuthoritiesThatCannotBeReadAreNamed) {
  const auto server = Serve("localhost");

  const absl::Status status = Post(server->port(), "no/such.pem");

  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no/such.pem"));
}

}  // namespace
}  // namespace bole
