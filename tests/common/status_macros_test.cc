#include "common/status_macros.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

absl::Status ReturnIfError(const absl::Status& status, bool& went_on) {
  BOLE_RETURN_IF_ERROR(status);
  went_on = true;
  return absl::OkStatus();
}

absl::StatusOr<int> AddOne(const absl::StatusOr<int>& input) {
  BOLE_ASSIGN_OR_RETURN(const int value, input);
  return value + 1;
}

absl::StatusOr<int> ReadBoth(absl::StatusOr<std::unique_ptr<int>> first,
                             absl::StatusOr<std::unique_ptr<int>> second) {
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<int> a, std::move(first));
  std::unique_ptr<int> b;
  BOLE_ASSIGN_OR_RETURN(b, std::move(second));
  return *a + *b;
}

TEST(StatusMacrosTest, ReturnIfErrorGoesOnAfterOk) {
  bool went_on = false;

  const absl::Status status = ReturnIfError(absl::OkStatus(), went_on);

  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(went_on);
}

TEST(StatusMacrosTest, ReturnIfErrorReturnsTheErrorUnchanged) {
  bool went_on = false;

  const absl::Status status =
      ReturnIfError(absl::NotFoundError("page 7"), went_on);

  EXPECT_EQ(status, absl::NotFoundError("page 7"));
  EXPECT_FALSE(went_on);
}

TEST(StatusMacrosTest, AssignOrReturnDeclaresFromAValue) {
  const absl::StatusOr<int> result = AddOne(41);

  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, 42);
}

TEST(StatusMacrosTest, AssignOrReturnReturnsTheError) {
  const absl::StatusOr<int> result = AddOne(absl::OutOfRangeError("slot 9"));

  EXPECT_EQ(result.status(), absl::OutOfRangeError("slot 9"));
}

TEST(StatusMacrosTest, AssignOrReturnMovesAndAssigns) {
  const absl::StatusOr<int> result =
      ReadBoth(std::make_unique<int>(40), std::make_unique<int>(2));

  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, 42);
}

}  // namespace
}  // namespace bole
