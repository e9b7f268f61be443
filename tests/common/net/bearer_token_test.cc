#include "common/net/bearer_token.h"

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

TEST(BearerTokenTest, SaysWhatTheFileHoldsNowOrHeldLast) {
  const ScopedDirectory directory;
  const std::string path = directory.Write("token", " first\n");
  auto token = BearerToken::Open(path);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ((*token)->Authorization(), "Bearer first");

  directory.Write("token", "second");
  EXPECT_EQ((*token)->Authorization(), "Bearer second");

  directory.Write("token", "");
  EXPECT_EQ((*token)->Authorization(), "Bearer second");
  std::filesystem::remove(path);
  EXPECT_EQ((*token)->Authorization(), "Bearer second");
}

TEST(BearerTokenTest, AnErrorNamesTheFileAndNotWhatItHolds) {
  const ScopedDirectory directory;
  for (const std::string& wrong :
       {std::string(), std::string(" \n"), std::string("secret two"),
        std::string("secret\xc3\xa4"), std::string("secret\0x", 8),
        std::string(5000, 's')}) {
    const std::string path = directory.Write("token", wrong);
    const absl::Status status = BearerToken::Open(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_NE(status.message().find(path), absl::string_view::npos);
    EXPECT_EQ(status.message().find("sec"), absl::string_view::npos);
  }
  EXPECT_FALSE(BearerToken::Open(directory.File("none")).ok());
}

}  // namespace
}  // namespace bole
