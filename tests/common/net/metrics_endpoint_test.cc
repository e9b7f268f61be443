#include "common/net/metrics_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"

namespace bole {
namespace {

// What the server on a port of this machine answers to a GET, headers included.
std::string Get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
      0) {
    const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
    EXPECT_EQ(send(fd, request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    std::array<char, 4096> buffer;
    for (ssize_t n; (n = recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
      answer.append(buffer.data(), n);
    }
  }
  close(fd);
  return answer;
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
  const auto endpoint =
      MetricsEndpoint::Start("127.0.0.1:0", Reach::kLoopback, OneCounter());
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  ASSERT_GT((*endpoint)->address().port, 0);

  const std::string answer = Get((*endpoint)->address().port, "/metrics");

  EXPECT_NE(answer.find("200 OK"), answer.npos) << answer;
  EXPECT_NE(answer.find("bole_test_total{kind=\"a\"} 7"), answer.npos)
      << answer;
}

TEST(MetricsEndpointTest, ATakenPortIsAnErrorThatNamesTheAddress) {
  const auto first =
      MetricsEndpoint::Start("127.0.0.1:0", Reach::kLoopback, OneCounter());
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = (*first)->address().ToString();

  const auto second =
      MetricsEndpoint::Start(address, Reach::kLoopback, OneCounter());

  ASSERT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find(address), absl::string_view::npos);
}

TEST(MetricsEndpointTest, ListensOnLoopbackAloneUnlessAllowed) {
  const auto refused =
      MetricsEndpoint::Start("0.0.0.0:0", Reach::kLoopback, OneCounter());
  const auto allowed =
      MetricsEndpoint::Start("0.0.0.0:0", Reach::kAnywhere, OneCounter());

  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(allowed.ok()) << allowed.status();
}

TEST(MetricsEndpointTest, ThePortIsFreeAfterwards) {
  std::string address;
  {
    const auto endpoint =
        MetricsEndpoint::Start("127.0.0.1:0", Reach::kLoopback, OneCounter());
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    address = (*endpoint)->address().ToString();
  }

  const auto again =
      MetricsEndpoint::Start(address, Reach::kLoopback, OneCounter());

  EXPECT_TRUE(again.ok()) << again.status();
}

}  // namespace
}  // namespace bole
