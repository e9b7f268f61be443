#include "scheduler_service/security_flags.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/command_line.h"
#include "common/net/listen_address.h"
#include "gtest/gtest.h"
#include "scheduler_service/scheduler_server.h"

namespace bole {
namespace {

// What the flags make of a server that has these peers.
struct Applied {
  absl::Status status;
  SchedulerServerOptions server;
};

Applied Apply(const std::vector<std::string>& arguments,
              const std::vector<std::string>& peers = {}) {
  CommandLine app("test", "");
  SecurityFlags flags;
  flags.AddTo(app);
  std::vector<const char*> argv = {"test"};
  for (const std::string& argument : arguments) {
    argv.push_back(argument.c_str());
  }
  EXPECT_FALSE(app.Parse(static_cast<int>(argv.size()), argv.data()));
  Applied applied;
  applied.server.peers = peers;
  applied.status = flags.ApplyTo(applied.server);
  return applied;
}

TEST(SecurityFlagsTest, OnlyWhoKnowsItsCallersOverTlsListensElsewhere) {
  const auto reach = [](const std::vector<std::string>& arguments) {
    const Applied applied = Apply(arguments);
    EXPECT_TRUE(applied.status.ok()) << applied.status;
    return applied.server.reach;
  };

  EXPECT_EQ(reach({}), Reach::kLoopback);
  EXPECT_EQ(reach({"--tls-cert=c", "--tls-key=k"}), Reach::kLoopback);
  EXPECT_EQ(reach({"--tokens=t"}), Reach::kLoopback);
  EXPECT_EQ(reach({"--tls-cert=c", "--tls-key=k", "--tokens=t"}),
            Reach::kAnywhere);
  EXPECT_EQ(reach({"--tls-cert=c", "--tls-key=k", "--tls-client-ca=a"}),
            Reach::kAnywhere);
  EXPECT_EQ(reach({"--allow-remote"}), Reach::kAnywhere);
}

TEST(SecurityFlagsTest, PeersSpeakAsTheySpeakToThisScheduler) {
  const std::vector<std::string> tls = {"--tls-cert=c", "--tls-key=k"};
  const auto with = [](std::vector<std::string> some,
                       const std::vector<std::string>& more) {
    some.insert(some.end(), more.begin(), more.end());
    return some;
  };
  const std::vector<std::string> peers = {"peers:1"};

  EXPECT_TRUE(Apply({}, peers).status.ok());
  EXPECT_TRUE(Apply(with(tls, {"--peer-ca=a"}), peers).status.ok());
  EXPECT_TRUE(
      Apply(with(tls, {"--peer-ca=a", "--tokens=t", "--peer-token-file=f"}),
            peers)
          .status.ok());
  for (const auto& wrong : std::vector<std::vector<std::string>>{
           tls,
           {"--peer-ca=a"},
           {"--tokens=t"},
           with(tls, {"--peer-ca=a", "--tokens=t"}),
           with(tls, {"--peer-ca=a", "--peer-token-file=f"}),
           {"--tokens=t", "--peer-token-file=f"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Apply(wrong, peers).status));
  }
}

TEST(SecurityFlagsTest, FlagsForPeersNeedPeers) {
  for (const char* flag : {"--peer-ca=x", "--peer-cert=x", "--peer-key=x",
                           "--peer-name=x", "--peer-token-file=x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Apply({flag}).status)) << flag;
  }
}

TEST(SecurityFlagsTest, EveryFileReachesTheServer) {
  const SchedulerServerOptions server =
      Apply({"--tls-cert=1", "--tls-key=2", "--tls-client-ca=3", "--tokens=4",
             "--worker-ca=5", "--worker-cert=6", "--worker-key=7",
             "--worker-name=8", "--peer-ca=9", "--peer-cert=10",
             "--peer-key=11", "--peer-name=12", "--peer-token-file=13"},
            {"peers:1"})
          .server;

  const std::vector<std::string> files = {
      server.tls.cert,       server.tls.key,
      server.tls.client_ca,  server.tokens_path,
      server.worker_tls.ca,  server.worker_tls.cert,
      server.worker_tls.key, server.worker_tls.server_name,
      server.peer_tls.ca,    server.peer_tls.cert,
      server.peer_tls.key,   server.peer_tls.server_name,
      server.peer_token_path};
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i], std::to_string(i + 1));
  }
}

}  // namespace
}  // namespace bole
