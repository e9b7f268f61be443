#include "common/net/server_credentials.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/net/service_host.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "proto/health.grpc.pb.h"
#include "tests/common/net/certificate_rotation.h"
#include "tests/common/net/test_certificates.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::CertificateRotation;
using testing::CertifiedKey;
using testing::TestAuthority;

constexpr char kName[] = "bole.test";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";

// What a client knows and shows.
struct Caller {
  std::string roots = {};  // Empty: it speaks no TLS.
  CertifiedKey own = {};
  std::string name = kName;  // Whom it expects.
};

// Over a connection of its own.
grpc::Status Call(const ServiceHost& host, const Caller& caller,
                  const std::vector<std::string>& authorizations = {}) {
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      grpc::InsecureChannelCredentials();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!caller.roots.empty()) {
    credentials = grpc::SslCredentials({.pem_root_certs = caller.roots,
                                        .pem_private_key = caller.own.key,
                                        .pem_cert_chain = caller.own.cert});
    arguments.SetSslTargetNameOverride(caller.name);
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(20));
  for (const std::string& value : authorizations) {
    context.AddMetadata("authorization", value);
  }
  grpc::health::v1::HealthCheckResponse response;
  return grpc::health::v1::Health::NewStub(
             grpc::CreateCustomChannel(host.address().ToString(), credentials,
                                       arguments))
      ->Check(&context, grpc::health::v1::HealthCheckRequest(), &response);
}

grpc::StatusCode CodeOfCall(const ServiceHost& host, const Caller& caller) {
  return Call(host, caller).error_code();
}

class ServerCredentialsTest : public ::testing::Test {
 protected:
  TlsFiles Write(const CertifiedKey& server, const std::string& client_ca) {
    TlsFiles files{.cert = directory_.Write("cert.pem", server.cert),
                   .key = directory_.Write("key.pem", server.key)};
    if (!client_ca.empty()) {
      files.client_ca = directory_.Write("ca.pem", client_ca);
    }
    return files;
  }
  // Health and reflection alone.
  std::unique_ptr<ServiceHost> Serve(const TlsFiles& files,
                                     CallGuard guard = nullptr) {
    auto host = ServiceHost::Start({.tls = files, .guard = std::move(guard)},
                                   std::vector<grpc::Service*>());
    EXPECT_TRUE(host.ok()) << host.status();
    return *std::move(host);
  }

  const ScopedDirectory directory_;
  const TestAuthority authority_{"authority"};
  const TestAuthority stranger_{"stranger"};
};

TEST_F(ServerCredentialsTest, ClientsThatBelieveTheCertificateAloneAreServed) {
  const auto host = Serve(Write(authority_.Issue(kName), ""));

  EXPECT_EQ(CodeOfCall(*host, {.roots = authority_.cert()}),
            grpc::StatusCode::OK);
  EXPECT_EQ(CodeOfCall(*host, {}), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeOfCall(*host, {.roots = stranger_.cert()}),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(
      CodeOfCall(*host, {.roots = authority_.cert(), .name = "elsewhere.test"}),
      grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerCredentialsTest, ClientsShowACertificateWhereOneIsAskedFor) {
  const auto host =
      Serve(Write(authority_.Issue(kName), /*client_ca=*/authority_.cert()));
  const auto code = [&](const CertifiedKey& own) {
    return CodeOfCall(*host, {.roots = authority_.cert(), .own = own});
  };

  EXPECT_EQ(code(authority_.Issue("client.test")), grpc::StatusCode::OK);
  EXPECT_EQ(code({}), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(code(stranger_.Issue("client.test")),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeOfCall(*host, {}), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServerCredentialsTest, TheGuardIsAskedAboutEveryCallWithOrWithoutTls) {
  for (const bool encrypted : {false, true}) {
    Mutex mutex;
    std::vector<std::pair<std::string, std::string>> asked;
    const auto host = Serve(
        encrypted ? Write(authority_.Issue(kName), "") : TlsFiles(),
        [&](std::string_view method, std::string_view authorization) {
          MutexLock lock(mutex);
          asked.emplace_back(method, authorization);
          return authorization == "good"
                     ? grpc::Status::OK
                     : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "no");
        });
    const Caller caller{.roots = encrypted ? authority_.cert() : ""};

    EXPECT_TRUE(Call(*host, caller, {"good"}).ok());
    for (const std::vector<std::string>& wrong :
         std::vector<std::vector<std::string>>{{}, {"bad"}, {"good", "good"}}) {
      const grpc::Status refused = Call(*host, caller, wrong);
      EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_EQ(refused.error_message(), "no");
    }

    MutexLock lock(mutex);
    const std::vector<std::pair<std::string, std::string>> expected = {
        {kCheck, "good"}, {kCheck, ""}, {kCheck, "bad"}, {kCheck, "good,good"}};
    EXPECT_EQ(asked, expected) << encrypted;
  }
}

TEST_F(ServerCredentialsTest, AFileThatIsOfNoUseIsAnErrorThatNamesIt) {
  const TlsFiles good = Write(authority_.Issue(kName), authority_.cert());
  const std::string garbage = directory_.Write("garbage.pem", "garbage");
  const std::string other_key =
      directory_.Write("other.pem", authority_.Issue(kName).key);
  const std::vector<std::pair<TlsFiles, std::string>> cases = {
      {{.cert = garbage, .key = good.key}, garbage},
      {{.cert = good.cert, .key = garbage}, garbage},
      {{.cert = good.cert, .key = other_key}, other_key},
      {{.cert = good.cert, .key = good.key, .client_ca = garbage}, garbage},
      {{.cert = good.cert, .key = "none.pem"}, "none.pem"},
      {{.cert = good.cert}, "private key"},
      {{.key = good.key}, "certificate"},
      {{.client_ca = good.client_ca}, "need TLS"}};
  for (const auto& [files, named] : cases) {
    const absl::Status status = MakeServerCredentials(files, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << named;
    EXPECT_NE(status.message().find(named), absl::string_view::npos) << status;
  }
}

TEST_F(ServerCredentialsTest, ACertificateRotatesUnderLoadWithoutAFailedCall) {
  CertificateRotation rotation(directory_.path());
  rotation.Show("now", authority_.Issue(kName));
  const auto host = Serve({.cert = directory_.File("now/cert.pem"),
                           .key = directory_.File("now/key.pem")});
  std::atomic<bool> stop{false};
  std::atomic<int> num_calls{0};
  Mutex mutex;
  std::vector<std::string> failures;
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      const Caller caller{.roots = authority_.cert() + stranger_.cert()};
      while (!stop) {
        const grpc::Status status = Call(*host, caller);
        ++num_calls;
        if (status.ok()) continue;
        MutexLock lock(mutex);
        failures.push_back(status.error_message());
      }
    });
  }
  const Caller old_caller{.roots = authority_.cert()};
  const Caller new_caller{.roots = stranger_.cert()};
  EXPECT_TRUE(Call(*host, old_caller).ok());
  EXPECT_FALSE(Call(*host, new_caller).ok());

  rotation.Show("now", stranger_.Issue(kName));

  const auto deadline = steady_clock::now() + seconds(20);
  while (!Call(*host, new_caller).ok() && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_TRUE(Call(*host, new_caller).ok());
  EXPECT_FALSE(Call(*host, old_caller).ok());
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(num_calls, 2);
  EXPECT_EQ(failures, std::vector<std::string>());
}

}  // namespace
}  // namespace bole
