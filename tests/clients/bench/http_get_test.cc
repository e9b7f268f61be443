#include "clients/bench/http_get.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/net/http/http_handler.h"
#include "common/net/http/http_message.h"
#include "common/net/http/http_server.h"
#include "common/net/http/server_tls.h"
#include "gtest/gtest.h"
#include "tests/common/net/http/echo_server.h"
#include "tests/common/net/test_certificates.h"
#include "tests/worker_service/model/files.h"

namespace bole::bench {
namespace {

using ::bole::testing::CertifiedKey;
using ::bole::testing::EchoServer;
using ::bole::testing::TestAuthority;

class HttpGetTest : public ::testing::Test {
 protected:
  static std::string Url(const EchoServer& server, const std::string& scheme,
                         const std::string& path = "/metrics") {
    return absl::StrCat(scheme, "://localhost:", server.port(), path);
  }
  // A server for localhost that asks for a certificate.
  HttpServerOptions WithTls() {
    const CertifiedKey own = authority_.Issue("localhost");
    auto tls = ServerTls::Open(
        {.files = {
             .cert = directory_.Write("cert.pem", own.cert),
             .key = directory_.Write("key.pem", own.key),
             .client_ca = directory_.Write("ca.pem", authority_.cert())}});
    EXPECT_TRUE(tls.ok()) << tls.status();
    return {.tls = *tls};
  }
  HttpGetOptions Files(const TestAuthority& by) {
    const CertifiedKey own = by.Issue("client.test");
    return {.ca_file = directory_.Write("ca.pem", authority_.cert()),
            .cert_file = directory_.Write("client.pem", own.cert),
            .key_file = directory_.Write("client_key.pem", own.key)};
  }

  const ScopedDirectory directory_;
  const TestAuthority authority_{"authority"};
  const TestAuthority stranger_{"stranger"};
};

TEST_F(HttpGetTest, ReadsAPage) {
  const EchoServer server;

  EXPECT_EQ(*HttpGet(Url(server, "http", "/a?b")), "GET /a ");
  const auto none = HttpGet(Url(server, "http", "/none"));
  EXPECT_TRUE(absl::IsFailedPrecondition(none.status()));
  EXPECT_NE(none.status().message().find("HTTP status 404"),
            absl::string_view::npos);
}

TEST_F(HttpGetTest, ReadsAPageThroughMutualTls) {
  const EchoServer server(WithTls());
  const std::string url = Url(server, "https");

  const auto page = HttpGet(url, Files(authority_));

  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(*page, "GET /metrics ");
}

TEST_F(HttpGetTest, WhoeverIsNotBelievedIsUnavailable) {
  const EchoServer server(WithTls());
  const HttpGetOptions files = Files(authority_);
  const std::string url = Url(server, "https");
  const auto code = [](const std::string& at, const HttpGetOptions& options) {
    return HttpGet(at, options).status().code();
  };

  // The server's authority is not one of the system's, nor the stranger.
  EXPECT_EQ(code(url, {}), absl::StatusCode::kUnavailable);
  HttpGetOptions wrong = files;
  wrong.ca_file = directory_.Write("stranger.pem", stranger_.cert());
  EXPECT_EQ(code(url, wrong), absl::StatusCode::kUnavailable);
  // Its name is another one.
  EXPECT_EQ(code(absl::StrCat("https://127.0.0.1:", server.port(), "/"), files),
            absl::StatusCode::kUnavailable);
  // It wants a certificate, of its authority.
  EXPECT_EQ(code(url, {.ca_file = files.ca_file}),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(url, Files(stranger_)), absl::StatusCode::kUnavailable);
  // It speaks TLS alone.
  EXPECT_EQ(code(Url(server, "http"), {}), absl::StatusCode::kUnavailable);
}

TEST_F(HttpGetTest, AServerThatClosesAtOnceIsUnavailable) {
  HttpServerOptions options = WithTls();
  options.limits.max_connections = 0;
  const EchoServer server(options);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(
        HttpGet(Url(server, "https"), Files(authority_)).status()));
  }
}

TEST_F(HttpGetTest, FilesThatAreOfNoUseAreErrorsThatNameThem) {
  const EchoServer server(WithTls());
  const std::string garbage = directory_.Write("garbage.pem", "garbage");
  HttpGetOptions wrong_ca = Files(authority_);
  wrong_ca.ca_file = garbage;
  HttpGetOptions wrong_cert = Files(authority_);
  wrong_cert.cert_file = garbage;
  for (const HttpGetOptions& wrong : {wrong_ca, wrong_cert}) {
    const auto page = HttpGet(Url(server, "https"), wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(page.status())) << page.status();
    EXPECT_NE(page.status().message().find(garbage), absl::string_view::npos)
        << page.status();
  }
}

TEST_F(HttpGetTest, WhatIsNoUrlIsAnErrorThatShowsIt) {
  for (const std::string url :
       {"", "localhost:1/metrics", "ftp://localhost/", "http://", "https:///x",
        "http://h:0/", "http://h:65536/", "http://h:x/", "http://a b/",
        "http://h/\r\nX: y", "http://user@h/", "http://h?query"}) {
    const auto page = HttpGet(url);
    EXPECT_TRUE(absl::IsInvalidArgument(page.status())) << url;
    EXPECT_NE(page.status().message().find(url), absl::string_view::npos);
  }
}

// Says what it was sent as Authorization.
class AuthorizationEcho : public HttpHandler {
 public:
  std::optional<HttpAnswer> Refuse(const HttpRequest&) override {
    return std::nullopt;
  }
  std::shared_ptr<HttpCall> Handle(
      HttpRequest request, std::shared_ptr<HttpExchange> exchange) override {
    exchange->Answer({.body = "<" + request.authorization + ">"});
    return nullptr;
  }
};

TEST_F(HttpGetTest, ATokenGoesToThisMachineOrThroughTls) {
  AuthorizationEcho handler;
  const auto clear = HttpServer::Start({}, handler);
  const auto tls = HttpServer::Start(WithTls(), handler);
  ASSERT_TRUE(clear.ok() && tls.ok());
  HttpGetOptions options = Files(authority_);
  options.authorization = "Bearer token";
  const auto sent = [&](const std::string& origin, const HttpServer& server) {
    return HttpGet(absl::StrCat(origin, ":", server.address().port), options)
        .value_or("none");
  };

  EXPECT_EQ(sent("http://localhost", **clear), "<Bearer token>");
  EXPECT_EQ(sent("http://127.0.0.1", **clear), "<Bearer token>");
  EXPECT_EQ(sent("https://localhost", **tls), "<Bearer token>");
  // Every address, which is this machine too, but might be any.
  EXPECT_EQ(sent("http://0.0.0.0", **clear), "<>");
}

}  // namespace
}  // namespace bole::bench
