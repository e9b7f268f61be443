#include "common/chat/comparison.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/chat/python_text.h"
#include "common/status_macros.h"

namespace bole::jinja {
namespace {

bool IsNumber(const Value& value) {
  return value.Is<bool>() || value.Is<int64_t>() || value.Is<BigUnsigned>() ||
         value.Is<double>();
}

// REQUIRES: IsNumber(value).
double ToDouble(const Value& value) {
  if (const auto* big = std::get_if<BigUnsigned>(&value.variant())) {
    return static_cast<double>(big->value);
  }
  if (const double* number = std::get_if<double>(&value.variant())) {
    return *number;
  }
  return static_cast<double>(value.IntOr(0));
}

// REQUIRES: both are numbers. Integers compare exactly, others as doubles.
std::partial_ordering OrderNumbers(const Value& left, const Value& right) {
  if (left.Is<double>() || right.Is<double>()) {
    return ToDouble(left) <=> ToDouble(right);
  }
  const auto* left_big = std::get_if<BigUnsigned>(&left.variant());
  const auto* right_big = std::get_if<BigUnsigned>(&right.variant());
  if (left_big && right_big) return left_big->value <=> right_big->value;
  if (left_big) return std::partial_ordering::greater;
  if (right_big) return std::partial_ordering::less;
  return left.IntOr(0) <=> right.IntOr(0);
}

absl::StatusOr<bool> ListsEqual(const List& left, const List& right,
                                Budget* budget) {
  if (left.is_tuple != right.is_tuple ||
      left.items.size() != right.items.size()) {
    return false;
  }
  for (size_t i = 0; i < left.items.size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(const bool equal,
                          Equals(left.items[i], right.items[i], budget));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<bool> DictsEqual(const Dict& left, const Dict& right,
                                Budget* budget) {
  if (left.items.size() != right.items.size()) return false;
  for (const auto& [key, value] : left.items) {
    const Value* other = right.Find(key);
    if (other == nullptr) return false;
    BOLE_ASSIGN_OR_RETURN(const bool equal, Equals(value, *other, budget));
    if (!equal) return false;
  }
  return true;
}

// Two values that can only be the same thing: loops, namespaces, functions.
bool IsSameThing(const Value& left, const Value& right) {
  if (left.AsLoop() != nullptr) return left.AsLoop() == right.AsLoop();
  const auto* space = std::get_if<Namespace*>(&left.variant());
  const auto* other_space = std::get_if<Namespace*>(&right.variant());
  if (space && other_space) return *space == *other_space;
  const auto* macro = std::get_if<const Macro*>(&left.variant());
  const auto* other_macro = std::get_if<const Macro*>(&right.variant());
  if (macro && other_macro) return *macro == *other_macro;
  return false;
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item,
                              Budget* budget) {
  if (const std::string* text = container.AsString()) {
    if (const std::string* wanted = item.AsString()) {
      BOLE_RETURN_IF_ERROR(budget->ChargeBytes(text->size()));
      return Find(*text, *wanted) != std::string_view::npos;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'in <string>' requires string as left operand, not ",
                     std::string(item.TypeName())));
  }
  if (const Dict* dict = container.AsDict()) {
    const std::string* key = item.AsString();
    if (key != nullptr) return dict->Find(*key) != nullptr;
    const bool is_list = item.AsList() != nullptr && !item.AsList()->is_tuple;
    if (!is_list && item.AsDict() == nullptr) return false;
    return absl::InvalidArgumentError(
        absl::StrCat("unhashable type: '", std::string(item.TypeName()), "'"));
  }
  if (const List* list = container.AsList()) {
    for (const Value& candidate : list->items) {
      BOLE_ASSIGN_OR_RETURN(const bool equal, Equals(candidate, item, budget));
      if (equal) return true;
    }
    return false;
  }
  if (container.Is<Undefined>()) return false;
  return absl::InvalidArgumentError(
      absl::StrCat("argument of type '", std::string(container.TypeName()),
                   "' is not iterable"));
}

absl::StatusOr<bool> InOrder(CompareOp op, const Value& left,
                             const Value& right) {
  std::partial_ordering order = std::partial_ordering::unordered;
  if (IsNumber(left) && IsNumber(right)) {
    order = OrderNumbers(left, right);
  } else if (left.AsString() != nullptr && right.AsString() != nullptr) {
    // The order of code points is the order of their UTF-8.
    order = *left.AsString() <=> *right.AsString();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", std::string(left.TypeName()), "' and '",
                     std::string(right.TypeName()), "' have no order"));
  }
  switch (op) {
    case CompareOp::kLt:
      return order < 0;
    case CompareOp::kLe:
      return order <= 0;
    case CompareOp::kGt:
      return order > 0;
    default:
      return order >= 0;
  }
}

}  // namespace

absl::StatusOr<bool> Equals(const Value& left, const Value& right,
                            Budget* budget) {
  BOLE_RETURN_IF_ERROR(budget->Charge(1));
  if (IsNumber(left) && IsNumber(right)) return OrderNumbers(left, right) == 0;
  if (left.Is<None>() || left.Is<Undefined>()) {
    return left.variant().index() == right.variant().index();
  }
  if (left.AsString() != nullptr && right.AsString() != nullptr) {
    BOLE_RETURN_IF_ERROR(budget->ChargeBytes(left.AsString()->size()));
    return *left.AsString() == *right.AsString();
  }
  if (left.AsList() != nullptr && right.AsList() != nullptr) {
    return ListsEqual(*left.AsList(), *right.AsList(), budget);
  }
  if (left.AsDict() != nullptr && right.AsDict() != nullptr) {
    return DictsEqual(*left.AsDict(), *right.AsDict(), budget);
  }
  return IsSameThing(left, right);
}

absl::StatusOr<bool> Compare(CompareOp op, const Value& left,
                             const Value& right, Budget* budget) {
  switch (op) {
    case CompareOp::kEq:
      return Equals(left, right, budget);
    case CompareOp::kNe: {
      BOLE_ASSIGN_OR_RETURN(const bool equal, Equals(left, right, budget));
      return !equal;
    }
    case CompareOp::kIn:
      return Contains(right, left, budget);
    case CompareOp::kNotIn: {
      BOLE_ASSIGN_OR_RETURN(const bool found, Contains(right, left, budget));
      return !found;
    }
    default:
      return InOrder(op, left, right);
  }
}

}  // namespace bole::jinja
