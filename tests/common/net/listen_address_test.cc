#include "common/net/listen_address.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(ListenAddressTest, ReadsWhatItWrites) {
  for (const char* text : {"127.0.0.1:0", "127.3.2.1:65535", "[::1]:50051"}) {
    const auto address = ParseListenAddress(text, Reach::kLoopback);

    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(ListenAddressTest, LocalhostIsOneAddressAndNotTwo) {
  const auto address = ParseListenAddress("localhost:7", Reach::kLoopback);

  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->ToString(), "127.0.0.1:7");
}

TEST(ListenAddressTest, OtherMachinesMustBeAllowed) {
  for (const char* text :
       {"0.0.0.0:80", "[::]:80", "192.168.0.1:80", "[fe80::1]:80",
        "[::ffff:10.0.0.1]:80", "126.255.255.255:80", "128.0.0.1:80"}) {
    SCOPED_TRACE(text);
    const auto refused = ParseListenAddress(text, Reach::kLoopback);
    const auto allowed = ParseListenAddress(text, Reach::kAnywhere);

    EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_NE(refused.status().message().find(text), absl::string_view::npos);
    ASSERT_TRUE(allowed.ok()) << allowed.status();
    EXPECT_EQ(allowed->ToString(), text);
  }
}

TEST(ListenAddressTest, RefusesEverythingElseAndQuotesIt) {
  for (const char* text :
       {"", ":", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
        "127.0.0.1:80x", "127.0.0.1:-1", "127.0.0.1:65536", "::1:80", "[]:80",
        "[127.0.0.1]:80", "127.1:80", "example.org:80", "unix:/tmp/x",
        "127.0.0.1:99999999999999999999"}) {
    SCOPED_TRACE(text);
    const auto address = ParseListenAddress(text, Reach::kAnywhere);

    ASSERT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(address.status().message().find(text), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace bole
