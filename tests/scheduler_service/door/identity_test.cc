#include "scheduler_service/door/identity.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(IdentityTest, NobodyInParticularIsATenantToo) {
  ASSERT_TRUE(Identify("").ok());
  EXPECT_EQ(Identify("")->tenant, "");
}

TEST(IdentityTest, LettersDigitsAndThreeSignsAreAllowed) {
  const std::string all =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._";
  ASSERT_EQ(all.size(), kMaxTenantCharacters);

  EXPECT_EQ(Identify(all)->tenant, all);
  EXPECT_EQ(Identify("a-b")->tenant, "a-b");
}

TEST(IdentityTest, AnythingElseIsRefusedWithItsValueAndWhatIsAllowed) {
  for (const std::string wrong :
       {"a b", "a,b", "a/b", "\xC3\xA9", "a\n", "a{}"}) {
    const absl::Status status = Identify(wrong).status();

    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Identify(std::string(65, 'a')).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Identify(std::string("a\0b", 3)).status()));
  EXPECT_EQ(Identify("a b").status().message(),
            "bole-tenant is 'a b'; allowed is at most 64 characters of "
            "[A-Za-z0-9._-]");
}

}  // namespace
}  // namespace bole
