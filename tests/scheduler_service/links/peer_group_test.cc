// Groups that ping each other over loopback.
#include "scheduler_service/links/peer_group.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/mutex.h"
#include "common/net/service_host.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "scheduler_service/links/peer_client.h"
#include "scheduler_service/links/peer_table.h"
#include "scheduler_service/links/peers_service.h"
#include "scheduler_service/links/share.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kInterval(20);
constexpr milliseconds kPatience(400);

bool Eventually(const std::function<bool()>& condition) {
  const auto end = steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

// A scheduler's port, and once it joins, its group.
struct Member {
  Member() {
    grpc::Service* services[] = {&service};
    auto started = ServiceHost::Start({}, services);
    BOLE_CHECK(started.ok());
    host = *std::move(started);
  }
  ~Member() { Stop(); }

  std::string address() const { return host->address().ToString(); }

  void Join(uint64_t instance, std::vector<std::string> names,
            const DiscoveryOptions& discovery = {}) {
    auto started =
        PeerGroup::Start({.names = std::move(names),
                          .self = {.instance = instance,
                                   .started_us = static_cast<int64_t>(instance),
                                   .name = "s" + std::to_string(instance),
                                   .models = {"demo"}},
                          .interval = kInterval,
                          .patience = kPatience,
                          .discovery = discovery},
                         [](const absl::Status&) {});
    BOLE_CHECK(started.ok());
    group = *std::move(started);
    service.Open({.peers = group.get(), .shares = [] {
                    return PoolShares{.models = {{.model = "demo",
                                                  .workers = 3,
                                                  .place = Place{},
                                                  .share = 3,
                                                  .held = 2,
                                                  .giving_back = 1}}};
                  }});
  }
  // As a process that is killed.
  void Stop() {
    if (host) host->Shutdown(steady_clock::now());
    service.Close();
    group.reset();
    host.reset();
  }

  // "s1 s2", once the view is settled.
  std::string Living() const {
    const PeerView view = group->view();
    if (!view.settled) return "?";
    return absl::StrJoin(
        view.living, " ",
        [](std::string* out, const Peer& peer) { out->append(peer.name); });
  }

  PeersService service;
  std::unique_ptr<ServiceHost> host;
  std::unique_ptr<PeerGroup> group;
};

class PeerGroupTest : public ::testing::Test {
 protected:
  PeerGroupTest() : members_(3) {
    std::vector<std::string> all;
    for (const Member& member : members_) all.push_back(member.address());
    for (uint64_t i = 0; i < members_.size(); ++i) {
      members_[i].Join(i + 1, all);
    }
  }
  bool AllSee(const std::string& living) {
    return Eventually([&] {
      for (const Member& member : members_) {
        if (member.group && member.Living() != living) return false;
      }
      return true;
    });
  }

  std::vector<Member> members_;
};

TEST_F(PeerGroupTest, AllFindAllAndThemselvesOnce) {
  EXPECT_TRUE(AllSee("s1 s2 s3"));
}

TEST_F(PeerGroupTest, OneThatIsGoneIsSilentToTheOthers) {
  ASSERT_TRUE(AllSee("s1 s2 s3"));

  members_[1].Stop();

  EXPECT_TRUE(AllSee("s1 s3"));
  EXPECT_EQ(members_[0].group->view().silent, std::vector<std::string>{"s2"});
}

TEST_F(PeerGroupTest, OneThatLeavesIsGoneForTheOthersAtOnce) {
  ASSERT_TRUE(AllSee("s1 s2 s3"));

  members_[1].group->Leave();

  EXPECT_EQ(members_[0].Living(), "s1 s3");
  EXPECT_EQ(members_[1].Living(), "s1 s3");
  EXPECT_EQ(members_[2].Living(), "s1 s3");
  EXPECT_EQ(members_[0].group->view().leaving, std::vector<std::string>{"s2"});
}

TEST_F(PeerGroupTest, OneThatComesBackUnderAnotherInstanceCounts) {
  ASSERT_TRUE(AllSee("s1 s2 s3"));
  const std::vector<std::string> names = {members_[0].address(),
                                          members_[2].address()};

  members_[1].service.Close();
  members_[1].group.reset();
  ASSERT_TRUE(AllSee("s1 s3"));
  members_[1].Join(9, names);

  EXPECT_TRUE(AllSee("s1 s3 s9"));
}

TEST_F(PeerGroupTest, ACallerDoesNotBecomeAPeer) {
  ASSERT_TRUE(AllSee("s1 s2 s3"));
  const auto stub = peer::v1::Peers::NewStub(grpc::CreateChannel(
      members_[0].address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  peer::v1::PingRequest request;
  request.set_instance(77);
  peer::v1::PingResponse response;

  const grpc::Status status = stub->Ping(&context, request, &response);

  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.instance(), 1u);
  EXPECT_EQ(response.name(), "s1");
  std::this_thread::sleep_for(5 * kInterval);
  EXPECT_EQ(members_[0].Living(), "s1 s2 s3");
}

TEST_F(PeerGroupTest, SharesAndSchedulersAreTold) {
  ASSERT_TRUE(AllSee("s1 s2 s3"));
  members_[2].group->Leave();
  const auto stub = peer::v1::Peers::NewStub(grpc::CreateChannel(
      members_[1].address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  peer::v1::GetSharesResponse told;

  const grpc::Status status =
      stub->GetShares(&context, peer::v1::GetSharesRequest(), &told);

  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(told.ShortDebugString(),
            "models { model: \"demo\" workers: 3 share: 3 held: 2 "
            "giving_back: 1 known: true } "
            "schedulers { name: \"s1\" state: LIVING } "
            "schedulers { name: \"s2\" state: LIVING is_self: true } "
            "schedulers { name: \"s3\" state: LEAVING }");
}

TEST(PeersServiceTest, WithoutPeersOrBeforeTheStartPingsAreRefused) {
  Member member;
  const auto stub = peer::v1::Peers::NewStub(grpc::CreateChannel(
      member.address(), grpc::InsecureChannelCredentials()));
  const auto ping = [&] {
    grpc::ClientContext context;
    peer::v1::PingResponse response;
    return stub->Ping(&context, peer::v1::PingRequest(), &response)
        .error_code();
  };

  EXPECT_EQ(ping(), grpc::StatusCode::UNAVAILABLE);
  member.service.Open(
      {.peers = nullptr, .shares = [] { return PoolShares(); }});

  EXPECT_EQ(ping(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(PeerGroupNameTest, ANameIsLookedUpAgain) {
  // What is looked up outlives the members, whose threads go on looking.
  Mutex mutex;
  std::string found = "127.0.0.9";  // Nobody is there.
  Member a;
  Member b;
  const std::string port = std::to_string(a.host->address().port);
  DiscoveryOptions discovery;
  discovery.interval = milliseconds(5);
  discovery.look_up =
      [&](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
    MutexLock lock(mutex);
    return std::vector<std::string>{found};
  };
  a.Join(1, {});
  b.Join(2, {"schedulers:" + port}, discovery);
  ASSERT_TRUE(Eventually([&] { return b.Living() == "s2"; }));

  {
    MutexLock lock(mutex);
    found = "127.0.0.1";
  }

  EXPECT_TRUE(Eventually([&] { return b.Living() == "s1 s2"; }));
}

TEST(PeerClientTest, ItsEndDoesNotWaitForWhoNeverAnswers) {
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in bound = {};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(bound);
  auto* const address = reinterpret_cast<sockaddr*>(&bound);
  ASSERT_EQ(bind(silent, address, size), 0);
  ASSERT_EQ(listen(silent, 8), 0);
  ASSERT_EQ(getsockname(silent, address, &size), 0);
  absl::Status ended;
  auto client = std::make_unique<PeerClient>(
      "127.0.0.1:" + std::to_string(ntohs(bound.sin_port)), kInterval);

  client->Ping({.instance = 1}, std::chrono::hours(1),
               [&](const auto& answer) { ended = answer.status(); });
  client.reset();

  EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
  close(silent);
}

TEST(PeerGroupNameTest, WhatIsNoAddressIsRefused) {
  const auto group = PeerGroup::Start({.names = {"schedulers"}, .self = {}},
                                      [](const absl::Status&) {});

  EXPECT_TRUE(absl::IsInvalidArgument(group.status())) << group.status();
}

}  // namespace
}  // namespace bole
