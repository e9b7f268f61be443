#include "common/field_error.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(FieldErrorTest, TheMessageHasTheQuantityAndThePayloadThePath) {
  const absl::Status field = BadField("top_p", 2, "(0, 1]");
  const absl::Status count = CheckAtMost(NumberOf("stop"), 17, 16);
  const absl::Status size = CheckAtMost(SizeOf("id"), 17, 16);

  EXPECT_EQ(field.message(), "top_p is 2; allowed is (0, 1]");
  EXPECT_EQ(FieldOf(field), "top_p");
  EXPECT_EQ(count.message(), "the number of stop is 17; allowed is [0, 16]");
  EXPECT_EQ(FieldOf(count), "stop");
  EXPECT_EQ(size.message(), "the size of id is 17; allowed is [0, 16]");
  EXPECT_EQ(FieldOf(size), "id");
  EXPECT_TRUE(CheckAtMost(SizeOf("id"), 16, 16).ok());
}

TEST(FieldErrorTest, AFieldWithinAnotherHasALongerPath) {
  const absl::Status inner = InField("a.b", BadField("c", 1, "0"));
  const absl::Status text = InField("a.b", absl::DataLossError("no JSON"));

  EXPECT_EQ(inner.message(), "a.b: c is 1; allowed is 0");
  EXPECT_EQ(FieldOf(inner), "a.b.c");
  EXPECT_EQ(text.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(text), "a.b");
}

TEST(FieldErrorTest, WhatIsNotOfferedIsUnimplemented) {
  const absl::Status status = UnimplementedField("regex");

  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FieldOf(status), "regex");
  EXPECT_EQ(FieldOf(absl::InvalidArgumentError("regex")), std::nullopt);
}

}  // namespace
}  // namespace bole
