#include "common/chat/arithmetic.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole::jinja {
namespace {

absl::StatusOr<Value> OfInts(BinaryOp op, int64_t left, int64_t right) {
  return Arithmetic(op, Value::Int(left), Value::Int(right));
}

int64_t IntOf(BinaryOp op, int64_t left, int64_t right) {
  const absl::StatusOr<Value> result = OfInts(op, left, right);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->IntOr(-999) : -999;
}

TEST(ArithmeticTest, DivisionRoundsDownAndRemaindersFollow) {
  for (const int64_t left : {-7, -6, -1, 0, 1, 6, 7}) {
    for (const int64_t right : {-3, -1, 1, 3}) {
      const int64_t quotient = IntOf(BinaryOp::kFloorDivide, left, right);
      const int64_t remainder = IntOf(BinaryOp::kModulo, left, right);
      EXPECT_EQ(quotient * right + remainder, left) << left << " " << right;
      EXPECT_TRUE(remainder == 0 || (remainder < 0) == (right < 0));
      EXPECT_LT(std::abs(remainder), std::abs(right));
    }
  }
}

TEST(ArithmeticTest, OverflowIsAnErrorAndNotAWrap) {
  EXPECT_EQ(OfInts(BinaryOp::kAdd, INT64_MAX, 1).status().message(),
            "9223372036854775807 + 1 overflows int64");
  EXPECT_FALSE(OfInts(BinaryOp::kSubtract, INT64_MIN, 1).ok());
  EXPECT_FALSE(OfInts(BinaryOp::kMultiply, INT64_MAX, 2).ok());
  EXPECT_FALSE(OfInts(BinaryOp::kFloorDivide, INT64_MIN, -1).ok());
  EXPECT_FALSE(OfInts(BinaryOp::kModulo, INT64_MIN, -1).ok());
  EXPECT_EQ(IntOf(BinaryOp::kSubtract, INT64_MIN + 1, 1), INT64_MIN);
}

TEST(ArithmeticTest, ErrorsNameTheTypes) {
  EXPECT_EQ(Arithmetic(BinaryOp::kAdd, Value::Str("a"), Value::Int(1))
                .status()
                .message(),
            "unsupported operand types for +: 'str' and 'int'");
  EXPECT_EQ(Arithmetic(BinaryOp::kAdd, Value::Str("a"),
                       Value::MakeUndefined("'x' is undefined"))
                .status()
                .message(),
            "'x' is undefined");
  EXPECT_TRUE(absl::IsUnimplemented(
      Arithmetic(BinaryOp::kModulo, Value::Str("%s"), Value::Int(1)).status()));
}

}  // namespace
}  // namespace bole::jinja
