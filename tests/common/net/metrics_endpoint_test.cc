#include "common/net/metrics_endpoint.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/net/http/http_message.h"
#include "common/net/http/server_tls.h"
#include "common/net/listen_address.h"
#include "gtest/gtest.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "tests/common/net/http/raw_client.h"
#include "tests/common/net/http/tls_client.h"
#include "tests/common/net/test_certificates.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using testing::CertifiedKey;
using testing::RawClient;
using testing::TestAuthority;
using testing::TlsClient;

// What the server on a port of this machine answers, head included.
std::string Ask(int port, const std::string& line,
                const std::string& headers = "") {
  RawClient client(port);
  client.Send(line + " HTTP/1.0\r\n" + headers + "\r\n");
  return client.ReadAll();
}

std::shared_ptr<prometheus::Registry> OneCounter() {
  auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter()
      .Name("bole_test_total")
      .Help("Of this test.")
      .Register(*registry)
      .Add({{"kind", "a"}})
      .Increment(7);
  return registry;
}

TEST(MetricsEndpointTest, AnswersWithTheRegistry) {
  const auto endpoint = MetricsEndpoint::Start({}, OneCounter());
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  ASSERT_GT((*endpoint)->address().port, 0);

  const std::string answer = Ask((*endpoint)->address().port, "GET /metrics");

  EXPECT_NE(answer.find("200 OK"), answer.npos) << answer;
  EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4"),
            answer.npos);
  EXPECT_NE(answer.find("bole_test_total{kind=\"a\"} 7"), answer.npos)
      << answer;
}

TEST(MetricsEndpointTest, NothingElseIsThere) {
  const auto endpoint = MetricsEndpoint::Start({}, OneCounter());
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const auto status = [&](const std::string& line) {
    return Ask((*endpoint)->address().port, line).substr(9, 3);
  };

  EXPECT_EQ(status("GET /"), "404");
  EXPECT_EQ(status("GET /metrics/"), "404");
  EXPECT_EQ(status("POST /metrics"), "405");
  EXPECT_EQ(status("HEAD /metrics"), "200");
}

TEST(MetricsEndpointTest, TheGuardIsAskedBeforeMetricsAreRead) {
  const auto guard = [](const HttpRequest& head) -> std::optional<HttpAnswer> {
    if (head.authorization == "Bearer good") return std::nullopt;
    return HttpError(401, "no", "not you");
  };
  const auto endpoint = MetricsEndpoint::Start({.guard = guard}, OneCounter());
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const int port = (*endpoint)->address().port;

  const std::string good =
      Ask(port, "GET /metrics", "Authorization: Bearer good\r\n");
  const std::string bad =
      Ask(port, "GET /metrics", "Authorization: Bearer bad\r\n");

  EXPECT_NE(good.find("bole_test_total"), good.npos) << good;
  EXPECT_NE(bad.find(" 401 "), bad.npos) << bad;
  EXPECT_EQ(bad.find("bole_test_total"), bad.npos) << bad;
}

TEST(MetricsEndpointTest, AnswersThroughTls) {
  const ScopedDirectory directory;
  const TestAuthority authority("authority");
  const CertifiedKey own = authority.Issue("bole.test");
  const auto tls =
      ServerTls::Open({.files = {.cert = directory.Write("cert.pem", own.cert),
                                 .key = directory.Write("key.pem", own.key)}});
  ASSERT_TRUE(tls.ok()) << tls.status();
  const auto endpoint = MetricsEndpoint::Start({.tls = *tls}, OneCounter());
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const int port = (*endpoint)->address().port;

  TlsClient client(port, {.roots = authority.cert()});
  ASSERT_TRUE(client.Handshake());
  client.Send("GET /metrics HTTP/1.0\r\n\r\n");

  EXPECT_NE(client.ReadAll().find("bole_test_total"), std::string::npos);
  EXPECT_EQ(Ask(port, "GET /metrics").find("bole"), std::string::npos);
}

TEST(MetricsEndpointTest, ATakenPortIsAnErrorThatNamesTheAddress) {
  const auto first = MetricsEndpoint::Start({}, OneCounter());
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = (*first)->address().ToString();

  const auto second =
      MetricsEndpoint::Start({.address = address}, OneCounter());

  ASSERT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find(address), absl::string_view::npos);
}

TEST(MetricsEndpointTest, ListensOnLoopbackAloneUnlessAllowed) {
  const auto refused =
      MetricsEndpoint::Start({.address = "0.0.0.0:0"}, OneCounter());
  const auto allowed = MetricsEndpoint::Start(
      {.address = "0.0.0.0:0", .reach = Reach::kAnywhere}, OneCounter());

  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(allowed.ok()) << allowed.status();
}

TEST(MetricsEndpointTest, ThePortIsFreeAfterwards) {
  std::string address;
  {
    const auto endpoint = MetricsEndpoint::Start({}, OneCounter());
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    address = (*endpoint)->address().ToString();
  }

  const auto again = MetricsEndpoint::Start({.address = address}, OneCounter());

  EXPECT_TRUE(again.ok()) << again.status();
}

}  // namespace
}  // namespace bole
