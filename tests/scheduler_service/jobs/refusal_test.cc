#include "scheduler_service/jobs/refusal.h"

#include <set>
#include <string>

#include "absl/status/status.h"
#include "common/field_error.h"
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
  EXPECT_EQ(refusal.bound, (ReachedBound{.count = 5, .max = 4}));
}

TEST(RefusalTest, AnErrorOfReadingIsARefusalWithItsField) {
  const Refusal wrong = RefusalOf(BadField("top_p", 2, "(0, 1]"));
  EXPECT_EQ(wrong.reason, RefusalReason::kInvalid);
  EXPECT_EQ(wrong.field, "top_p");
  EXPECT_EQ(wrong.message, "top_p is 2; allowed is (0, 1]");

  const Refusal later = RefusalOf(UnimplementedField("regex"));
  EXPECT_EQ(later.reason, RefusalReason::kUnimplemented);
  EXPECT_EQ(later.field, "regex");

  EXPECT_EQ(RefusalOf(absl::NotFoundError("")).reason,
            RefusalReason::kUnknownModel);
  EXPECT_EQ(RefusalOf(absl::UnavailableError("")).reason,
            RefusalReason::kNoWorker);
  EXPECT_EQ(RefusalOf(absl::InvalidArgumentError("")).field, "");
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
