#include "common/chat/arithmetic.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/chat/budget.h"
#include "common/status_macros.h"

namespace bole::jinja {
namespace {

std::string_view Symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSubtract:
      return "-";
    case BinaryOp::kMultiply:
      return "*";
    case BinaryOp::kDivide:
      return "/";
    case BinaryOp::kFloorDivide:
      return "//";
    case BinaryOp::kModulo:
      return "%";
    default:
      return "?";
  }
}

std::optional<int64_t> AsInt(const Value& value) {
  if (!value.Is<int64_t>() && !value.Is<bool>()) return std::nullopt;
  return value.IntOr(0);
}

std::optional<double> AsDouble(const Value& value) {
  if (const double* number = std::get_if<double>(&value.variant())) {
    return *number;
  }
  const std::optional<int64_t> number = AsInt(value);
  if (!number) return std::nullopt;
  return static_cast<double>(*number);
}

absl::Status DivisionByZero() {
  return absl::InvalidArgumentError("division by zero");
}

// Rounds down, where C++ rounds towards zero.
//
// REQUIRES: right != 0, and not INT64_MIN / -1.
int64_t FloorDivide(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1
                                                        : quotient;
}

absl::StatusOr<Value> OfInts(BinaryOp op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case BinaryOp::kSubtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case BinaryOp::kMultiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case BinaryOp::kDivide:
      if (right == 0) return DivisionByZero();
      return Value::Float(static_cast<double>(left) /
                          static_cast<double>(right));
    default:
      if (right == 0) return DivisionByZero();
      overflow = left == INT64_MIN && right == -1;
      if (overflow) break;
      result = FloorDivide(left, right);
      if (op == BinaryOp::kModulo) result = left - result * right;
      break;
  }
  if (!overflow) return Value::Int(result);
  return absl::InvalidArgumentError(absl::StrCat(
      left, " ", std::string(Symbol(op)), " ", right, " overflows int64"));
}

absl::StatusOr<Value> OfDoubles(BinaryOp op, double left, double right) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::Float(left + right);
    case BinaryOp::kSubtract:
      return Value::Float(left - right);
    case BinaryOp::kMultiply:
      return Value::Float(left * right);
    default:
      break;
  }
  if (right == 0) return DivisionByZero();
  if (op == BinaryOp::kDivide) return Value::Float(left / right);
  // The remainder has the divisor's sign, and the quotient follows from it.
  double remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) remainder += right;
  if (op == BinaryOp::kModulo) return Value::Float(remainder);
  return Value::Float(std::round((left - remainder) / right));
}

absl::Status TooLong(const char* what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("a ", what, " that is too long"));
}

absl::StatusOr<Value> AddStrings(const std::string& left,
                                 const std::string& right) {
  if (left.size() + right.size() > kMaxStringBytes) return TooLong("string");
  return Value::Str(left + right);
}

absl::StatusOr<Value> AddLists(const List& left, const List& right) {
  if (left.items.size() + right.items.size() > kMaxListItems) {
    return TooLong("list");
  }
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return Value::MakeList(std::move(items), left.is_tuple);
}

absl::StatusOr<Value> Repeat(const std::string& text, int64_t times) {
  if (times <= 0 || text.empty()) return Value::Str("");
  if (times > static_cast<int64_t>(kMaxStringBytes / text.size())) {
    return TooLong("string");
  }
  std::string repeated;
  for (int64_t i = 0; i < times; ++i) repeated += text;
  return Value::Str(std::move(repeated));
}

}  // namespace

absl::StatusOr<Value> Arithmetic(BinaryOp op, const Value& left,
                                 const Value& right) {
  const std::optional<int64_t> left_int = AsInt(left);
  const std::optional<int64_t> right_int = AsInt(right);
  if (left_int && right_int) return OfInts(op, *left_int, *right_int);
  const std::optional<double> left_double = AsDouble(left);
  const std::optional<double> right_double = AsDouble(right);
  if (left_double && right_double) {
    return OfDoubles(op, *left_double, *right_double);
  }
  const std::string* left_text = left.AsString();
  const std::string* right_text = right.AsString();
  const List* left_list = left.AsList();
  const List* right_list = right.AsList();
  if (op == BinaryOp::kAdd) {
    if (left_text && right_text) return AddStrings(*left_text, *right_text);
    if (left_list && right_list &&
        left_list->is_tuple == right_list->is_tuple) {
      return AddLists(*left_list, *right_list);
    }
  }
  if (op == BinaryOp::kMultiply) {
    if (left_text && right_int) return Repeat(*left_text, *right_int);
    if (left_int && right_text) return Repeat(*right_text, *left_int);
  }
  if (op == BinaryOp::kModulo && left_text) {
    return absl::UnimplementedError("formatting with % is not supported");
  }
  for (const Value* side : {&left, &right}) {
    if (side->Is<Undefined>()) {
      return absl::InvalidArgumentError(
          *std::get<Undefined>(side->variant()).why);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unsupported operand types for ", std::string(Symbol(op)),
                   ": '", std::string(left.TypeName()), "' and '",
                   std::string(right.TypeName()), "'"));
}

}  // namespace bole::jinja
