// Certificates and tokens between the services.
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/net/bearer_token.h"
#include "common/net/client_credentials.h"
#include "common/net/server_credentials.h"
#include "common/net/service_host.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/grpc_worker_client.h"
#include "scheduler_service/links/peer_client.h"
#include "scheduler_service/links/peer_group.h"
#include "scheduler_service/links/peer_table.h"
#include "scheduler_service/links/peers_service.h"
#include "scheduler_service/links/share.h"
#include "scheduler_service/links/worker_client.h"
#include "tests/common/net/test_certificates.h"
#include "tests/scheduler_service/links/fake_worker.h"
#include "tests/scheduler_service/served_model.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using testing::CertifiedKey;
using testing::EventLog;
using testing::FakeExecute;
using testing::FakeWorker;
using testing::TestAuthority;
using testing::TinyWorker;

constexpr char kName[] = "bole.test";

bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

// The files of both ends, which know each other by one authority.
class LinkSecurityTest : public ::testing::Test {
 protected:
  TlsFiles ServerFiles() {
    const CertifiedKey server = authority_.Issue(kName);
    return {.cert = directory_.Write("server.pem", server.cert),
            .key = directory_.Write("server_key.pem", server.key),
            .client_ca = directory_.Write("ca.pem", authority_.cert())};
  }
  TlsClientFiles ClientFiles(const TestAuthority& certified_by) {
    const CertifiedKey own = certified_by.Issue("client.test");
    return {.ca = directory_.Write("ca.pem", authority_.cert()),
            .cert = directory_.Write("client.pem", own.cert),
            .key = directory_.Write("client_key.pem", own.key),
            .server_name = kName};
  }
  ClientCredentials Open(const TlsClientFiles& files) {
    absl::StatusOr<ClientCredentials> opened = ClientCredentials::Open(files);
    BOLE_CHECK(opened.ok());
    return *std::move(opened);
  }

  const TestAuthority authority_{"authority"};
  const TestAuthority stranger_{"stranger"};
  const ScopedDirectory directory_;
};

TEST_F(LinkSecurityTest, AWorkerIsReachedByWhoIsCertifiedAndExpectsItsName) {
  FakeWorker worker(
      TinyWorker(),
      [](FakeExecute& call) {
        call.Open();
        call.AwaitClient();
        return grpc::Status::OK;
      },
      ServerFiles());
  // "", or why it is not connected.
  const auto connect = [&](const ClientCredentials& credentials) {
    EventLog log;
    const GrpcWorkerClient client(
        {.address = worker.address(),
         .scheduler = {.name = "a:1", .instance = 1},
         .credentials = credentials},
        [&](WorkerNews news) { log.Add(std::move(news)); });
    const std::optional<WorkerNews> news = log.Next();
    if (!news) return std::string("nothing came");
    const auto* lost = std::get_if<WorkerLost>(&*news);
    return lost ? std::string(lost->why.message()) : std::string();
  };
  const TlsClientFiles good = ClientFiles(authority_);

  EXPECT_EQ(connect(Open(good)), "");
  EXPECT_NE(connect({}), "");
  EXPECT_NE(connect(Open({.ca = good.ca, .server_name = kName})), "");
  // The address is not in the certificate.
  EXPECT_NE(connect(Open({.ca = good.ca, .cert = good.cert, .key = good.key})),
            "");
  EXPECT_NE(connect(Open({.ca = directory_.Write("other.pem", stranger_.cert()),
                          .cert = good.cert,
                          .key = good.key,
                          .server_name = kName})),
            "");
  EXPECT_NE(connect(Open(ClientFiles(stranger_))), "");
}

TEST_F(LinkSecurityTest, APeerIsReachedWithACertificateAndAToken) {
  PeersService service;
  grpc::Service* services[] = {&service};
  auto host = ServiceHost::Start(
      {.tls = ServerFiles(),
       .guard =
           [](std::string_view, std::string_view authorization) {
             return authorization == "Bearer good"
                        ? grpc::Status::OK
                        : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "");
           }},
      services);
  ASSERT_TRUE(host.ok()) << host.status();
  const std::string address = (*host)->address().ToString();
  const std::string path = directory_.Write("token", "bad\n");
  auto token = BearerToken::Open(path);
  ASSERT_TRUE(token.ok()) << token.status();
  const ClientCredentials credentials = Open(ClientFiles(authority_));
  auto group = PeerGroup::Start(
      {.names = {address},
       .self = {.instance = 1, .name = "s1"},
       .interval = milliseconds(20),
       .patience = milliseconds(400),
       .credentials = credentials,
       .authorization = [&] { return (*token)->Authorization(); }},
      [](const absl::Status&) {});
  ASSERT_TRUE(group.ok()) << group.status();
  service.Open({.peers = group->get(), .shares = [] { return PoolShares(); }});
  const auto ping = [&](const ClientCredentials& by,
                        const char* authorization) {
    std::promise<absl::StatusCode> ended;
    PeerClient client(address, milliseconds(20), by);
    client.Ping({.instance = 2, .authorization = authorization},
                std::chrono::seconds(20), [&](const auto& answer) {
                  ended.set_value(answer.status().code());
                });
    return ended.get_future().get();
  };

  EXPECT_EQ(ping(credentials, "Bearer good"), absl::StatusCode::kOk);
  EXPECT_EQ(ping(credentials, "Bearer bad"),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ping(credentials, ""), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ping({}, "Bearer good"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ping(Open(ClientFiles(stranger_)), "Bearer good"),
            absl::StatusCode::kUnavailable);

  // The next ping says what the file says, and the group finds itself.
  const auto sees = [&](const std::vector<std::string>& silent) {
    const PeerView view = (*group)->view();
    return view.settled && view.silent == silent;
  };
  EXPECT_TRUE(Eventually([&] { return sees({address}); }));
  directory_.Write("token", "good\n");
  EXPECT_TRUE(Eventually([&] { return sees({}); }));
  service.Close();
  (*host)->Shutdown(std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace bole
