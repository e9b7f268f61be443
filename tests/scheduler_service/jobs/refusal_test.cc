#include "scheduler_service/jobs/refusal.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(RefusalTest, EveryReasonHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const RefusalReason reason : kRefusalReasons) {
    names.insert(NameOf(reason));
  }

  EXPECT_EQ(names.size(), kRefusalReasons.size());
  EXPECT_EQ(names.count(""), 0u);
}

TEST(RefusalTest, AFullBoundNamesItselfAndItsValues) {
  const Refusal refusal = FullRefusal(RefusalReason::kTooManyOpen, 5, 4);

  EXPECT_EQ(refusal.reason, RefusalReason::kTooManyOpen);
  EXPECT_EQ(refusal.message, "too_many_open: 5, of at most 4");
}

TEST(RefusalTest, OnlyAFullBoundMayPass) {
  EXPECT_TRUE(IsFull(RefusalReason::kQueueTokens));
  EXPECT_TRUE(IsFull(RefusalReason::kHeldOutput));
  EXPECT_FALSE(IsFull(RefusalReason::kUnknownModel));
  EXPECT_FALSE(IsFull(DrainingRefusal().reason));
  EXPECT_FALSE(IsFull(CancelledRefusal().reason));
}

}  // namespace
}  // namespace bole
