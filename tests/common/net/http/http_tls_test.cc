// HttpServer through TLS.
#include <openssl/ssl.h>
#include <openssl/sslerr.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/net/http/http_server.h"
#include "common/net/http/server_tls.h"
#include "common/net/pem_files.h"
#include "gtest/gtest.h"
#include "tests/common/net/certificate_rotation.h"
#include "tests/common/net/http/echo_server.h"
#include "tests/common/net/http/raw_client.h"
#include "tests/common/net/http/tls_client.h"
#include "tests/common/net/test_certificates.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using testing::CertificateRotation;
using testing::CertifiedKey;
using testing::EchoServer;
using testing::EndsWith;
using testing::Eventually;
using testing::Get;
using testing::RawClient;
using testing::StatusOf;
using testing::TestAuthority;
using testing::TlsClient;
using testing::TlsClientOptions;

constexpr char kName[] = "bole.test";
constexpr milliseconds kPoll(10);

class HttpTlsTest : public ::testing::Test {
 protected:
  TlsFiles Write(const CertifiedKey& server,
                 const std::string& client_ca = "") {
    TlsFiles files{.cert = directory_.Write("cert.pem", server.cert),
                   .key = directory_.Write("key.pem", server.key)};
    if (!client_ca.empty()) {
      files.client_ca = directory_.Write("ca.pem", client_ca);
    }
    return files;
  }
  std::shared_ptr<ServerTls> Open(const TlsFiles& files) {
    auto tls = ServerTls::Open(
        {.files = files,
         .note = [this](const std::string& what) { Note(what); },
         .poll_interval = kPoll});
    EXPECT_TRUE(tls.ok()) << tls.status();
    return *std::move(tls);
  }
  void Note(const std::string& what) {
    MutexLock lock(mutex_);
    notes_.push_back(what);
  }
  std::vector<std::string> notes() {
    MutexLock lock(mutex_);
    return notes_;
  }

  // The status of an answer on a connection of its own; "none" without one.
  static std::string Ask(int port, const TlsClientOptions& options) {
    TlsClient client(port, options);
    if (!client.Handshake()) return "none";
    client.Send(Get("/", "Connection: close\r\n"));
    return StatusOf(client.ReadAll());
  }

  const ScopedDirectory directory_;
  const TestAuthority authority_{"authority"};
  const TestAuthority stranger_{"stranger"};
  const TlsClientOptions believer_{.roots = authority_.cert()};
  Mutex mutex_;
  std::vector<std::string> notes_;
};

TEST_F(HttpTlsTest, AnswersOverBothVersionsAndSaysWhereItEnds) {
  const EchoServer server({.tls = Open(Write(authority_.Issue(kName)))});
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server.port(),
                     {.roots = authority_.cert(), .version = version});
    ASSERT_TRUE(client.Handshake()) << client.error();
    const std::string body(1 << 20, 'x');
    std::thread sender([&] {
      client.Send("POST /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" +
                  std::string("Content-Length: 1048576\r\n\r\n") + body);
    });
    sender.join();
    const std::string answer = client.ReadAll();

    EXPECT_EQ(StatusOf(answer), "200");
    EXPECT_TRUE(EndsWith(answer, "POST /p " + body));
    EXPECT_TRUE(client.has_clean_end());
  }
}

TEST_F(HttpTlsTest, OlderVersionsAreRefused) {
  const EchoServer server({.tls = Open(Write(authority_.Issue(kName)))});
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION}) {
    TlsClient client(server.port(),
                     {.roots = authority_.cert(), .version = version});

    EXPECT_FALSE(client.Handshake());
    EXPECT_EQ(client.error(), SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
  }
}

TEST_F(HttpTlsTest, ClientsShowACertificateWhereOneIsAskedFor) {
  const EchoServer server(
      {.tls = Open(Write(authority_.Issue(kName), authority_.cert()))});
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const auto status = [&](const CertifiedKey& own) {
      return Ask(server.port(),
                 {.roots = authority_.cert(), .own = own, .version = version});
    };

    EXPECT_EQ(status(authority_.Issue("client.test")), "200");
    EXPECT_EQ(status({}), "none");
    EXPECT_EQ(status(stranger_.Issue("client.test")), "none");
  }
}

TEST_F(HttpTlsTest, WhatIsNoHandshakeIsRefused) {
  EchoServer server({.tls = Open(Write(authority_.Issue(kName)))});
  const std::string zeros(1000, '\0');
  for (const std::string& bytes :
       {Get("/"), zeros, std::string("\x16\x03\x01\xff\xff", 5) + zeros}) {
    RawClient client(server.port());
    client.Send(bytes);
    client.EndSending();

    EXPECT_EQ(client.ReadAll().find("HTTP"), std::string::npos);
  }
  EXPECT_EQ(Ask(server.port(), believer_), "200");
  EXPECT_TRUE(
      Eventually([&] { return server.server().num_connections() == 0; }));
}

TEST_F(HttpTlsTest, AgreesOnHttp1Alone) {
  const EchoServer server({.tls = Open(Write(authority_.Issue(kName)))});
  const auto agree = [&](const std::string& protocols) {
    TlsClient client(server.port(),
                     {.roots = authority_.cert(), .protocols = protocols});
    return client.Handshake() ? client.protocol() : "none";
  };

  EXPECT_EQ(agree(""), "");
  EXPECT_EQ(agree("\x08http/1.1"), "http/1.1");
  EXPECT_EQ(agree("\x02h2\x08http/1.0\x08http/1.1"), "http/1.1");
  EXPECT_EQ(agree("\x08http/1.0"), "http/1.0");
  EXPECT_EQ(agree("\x02h2"), "none");
}

TEST_F(HttpTlsTest, StreamsAndNoticesWhoLeaves) {
  EchoServer server({.tls = Open(Write(authority_.Issue(kName)))});
  TlsClient stays(server.port(), believer_);
  TlsClient leaves(server.port(), believer_);
  for (TlsClient* client : {&stays, &leaves}) {
    ASSERT_TRUE(client->Handshake());
    client->Send(Get("/stream"));
    EXPECT_NE(client->ReadUntil("first\n\n").find("\r\n\r\nd\r\ndata: first"),
              std::string::npos);
  }
  const auto streams = server.echo().streams();
  ASSERT_EQ(streams.size(), 2u);

  leaves.Close();

  EXPECT_TRUE(Eventually([&] { return streams[1]->done == 1; }));
  EXPECT_EQ(streams[1]->gone, 1);
  ASSERT_TRUE(Eventually([&] { return streams[0]->written == 1; }));
  streams[0]->exchange->Write("data: last\n\n", /*last=*/true);
  EXPECT_TRUE(
      EndsWith(stays.ReadUntil("0\r\n\r\n"), "data: last\n\n\r\n0\r\n\r\n"));
  EXPECT_EQ(streams[0]->gone, 0);
}

TEST_F(HttpTlsTest, AnUnfinishedHandshakeEndsInTimeAndHoldsUpNobody) {
  constexpr milliseconds kHandshakeTime(1000);
  EchoServer server({.limits = {.handshake_time = kHandshakeTime},
                     .tls = Open(Write(authority_.Issue(kName)))});
  const auto start = std::chrono::steady_clock::now();
  std::deque<RawClient> silent;
  for (int i = 0; i < 50; ++i) {
    silent.emplace_back(server.port());
    // The beginning of a handshake, and nothing.
    if (i % 2 == 1) silent.back().Send(std::string("\x16\x03\x01\x02", 4));
  }
  ASSERT_TRUE(
      Eventually([&] { return server.server().num_connections() == 50; }));

  EXPECT_EQ(Ask(server.port(), believer_), "200");
  EXPECT_LT(std::chrono::steady_clock::now() - start, kHandshakeTime);
  for (RawClient& client : silent) EXPECT_TRUE(client.AwaitEnd());
  EXPECT_GE(std::chrono::steady_clock::now() - start, kHandshakeTime);
  EXPECT_TRUE(
      Eventually([&] { return server.server().num_connections() == 0; }));
}

TEST_F(HttpTlsTest, ConnectionsCountBeforeTheirHandshake) {
  EchoServer server({.limits = {.max_connections = 2},
                     .tls = Open(Write(authority_.Issue(kName)))});
  auto first = std::make_unique<RawClient>(server.port());
  const RawClient second(server.port());
  ASSERT_TRUE(
      Eventually([&] { return server.server().num_connections() == 2; }));

  EXPECT_EQ(Ask(server.port(), believer_), "none");
  first.reset();
  ASSERT_TRUE(
      Eventually([&] { return server.server().num_connections() == 1; }));
  EXPECT_EQ(Ask(server.port(), believer_), "200");
}

TEST_F(HttpTlsTest, ACertificateRotatesUnderLoadWithoutAFailedRequest) {
  CertificateRotation rotation(directory_.path());
  rotation.Show("now", authority_.Issue(kName));
  const EchoServer server(
      {.tls = Open({.cert = directory_.File("now/cert.pem"),
                    .key = directory_.File("now/key.pem")})});
  const std::string both = authority_.cert() + stranger_.cert();
  std::atomic<bool> stop{false};
  std::atomic<int> num_requests{0};
  std::atomic<int> num_failures{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        if (Ask(server.port(), {.roots = both}) != "200") ++num_failures;
        ++num_requests;
      }
    });
  }
  TlsClient old(server.port(), believer_);
  ASSERT_TRUE(old.Handshake());
  const TlsClientOptions follower{.roots = stranger_.cert()};
  EXPECT_EQ(Ask(server.port(), follower), "none");

  rotation.Show("now", stranger_.Issue(kName));

  EXPECT_TRUE(
      Eventually([&] { return Ask(server.port(), follower) == "200"; }));
  EXPECT_EQ(Ask(server.port(), believer_), "none");
  // A connection that is there goes on.
  old.Send(Get("/old"));
  EXPECT_TRUE(EndsWith(old.ReadUntil("GET /old "), "GET /old "));
  const int num_before = num_requests;
  EXPECT_TRUE(Eventually([&] { return num_requests > num_before + 10; }));
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(num_failures, 0);
  ASSERT_EQ(notes().size(), 1u);
  EXPECT_NE(notes()[0].find("now/cert.pem were read again"), std::string::npos);
}

TEST_F(HttpTlsTest, AWrongPairIsToldOnceAndTheOldOneStays) {
  const CertifiedKey first = authority_.Issue(kName);
  const CertifiedKey second = stranger_.Issue(kName);
  const EchoServer server({.tls = Open(Write(first))});

  directory_.Write("cert.pem", second.cert);
  ASSERT_TRUE(Eventually([&] { return !notes().empty(); }));
  std::this_thread::sleep_for(10 * kPoll);

  ASSERT_EQ(notes().size(), 1u);
  EXPECT_NE(notes()[0].find("key.pem is not the private key of"),
            std::string::npos)
      << notes()[0];
  EXPECT_NE(notes()[0].find("the old ones stay"), std::string::npos);
  EXPECT_EQ(Ask(server.port(), believer_), "200");

  directory_.Write("key.pem", second.key);

  EXPECT_TRUE(Eventually([&] {
    return Ask(server.port(), {.roots = stranger_.cert()}) == "200";
  }));
  EXPECT_EQ(notes().size(), 2u);
}

TEST_F(HttpTlsTest, AuthoritiesOfClientsAreFollowedToo) {
  const EchoServer server(
      {.tls = Open(Write(authority_.Issue(kName), authority_.cert()))});
  const auto status = [&](const TestAuthority& by) {
    return Ask(server.port(),
               {.roots = authority_.cert(), .own = by.Issue("client.test")});
  };
  EXPECT_EQ(status(authority_), "200");
  EXPECT_EQ(status(stranger_), "none");

  directory_.Write("ca.pem", authority_.cert() + stranger_.cert());
  EXPECT_TRUE(Eventually([&] { return status(stranger_) == "200"; }));
  EXPECT_EQ(status(authority_), "200");

  directory_.Write("ca.pem", stranger_.cert());
  EXPECT_TRUE(Eventually([&] { return status(authority_) == "none"; }));
  EXPECT_EQ(status(stranger_), "200");
}

TEST_F(HttpTlsTest, FilesThatAreOfNoUseAreErrorsThatNameThem) {
  const TlsFiles good = Write(authority_.Issue(kName), authority_.cert());
  const std::string garbage = directory_.Write("garbage.pem", "garbage");
  const std::vector<std::pair<TlsFiles, std::string>> cases = {
      {{.cert = garbage, .key = good.key}, garbage},
      {{.cert = good.cert, .key = "none.pem"}, "none.pem"},
      {{.cert = good.cert, .key = good.key, .client_ca = garbage}, garbage},
      {{.cert = good.cert}, "private key"},
      {{.client_ca = good.client_ca}, "need TLS"}};
  for (const auto& [files, named] : cases) {
    const absl::Status status = ServerTls::Open({.files = files}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << named;
    EXPECT_NE(status.message().find(named), absl::string_view::npos) << status;
  }
  EXPECT_EQ(*ServerTls::Open({}), nullptr);
}

}  // namespace
}  // namespace bole
