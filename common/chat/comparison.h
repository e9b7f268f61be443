// Comparisons between values, as in Python.
#ifndef BOLE_COMMON_CHAT_COMPARISON_H_
#define BOLE_COMMON_CHAT_COMPARISON_H_

#include "absl/status/statusor.h"
#include "common/chat/ast.h"
#include "common/chat/budget.h"
#include "common/chat/value.h"

namespace bole::jinja {

// left == right. Numbers compare across types: 1 == 1.0 == True.
absl::StatusOr<bool> Equals(const Value& left, const Value& right,
                            Budget* budget);

// One comparison of a chain, `in` included. INVALID_ARGUMENT for types that
// have no order or hold no items.
absl::StatusOr<bool> Compare(CompareOp op, const Value& left,
                             const Value& right, Budget* budget);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_COMPARISON_H_
