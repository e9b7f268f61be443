// Early return on an absl::Status error, in one line.
#ifndef BOLE_COMMON_STATUS_MACROS_H_
#define BOLE_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the current function if `expr`, an absl::Status, is an error.
// `expr` is evaluated once.
#define BOLE_RETURN_IF_ERROR(expr)             \
  do {                                         \
    absl::Status bole_status = (expr);         \
    if (!bole_status.ok()) return bole_status; \
  } while (false)

// Declares or assigns `lhs` from `expr`, an absl::StatusOr, or returns its
// error. `expr` is evaluated once. Two statements: not for an `if` without
// braces. An `lhs` with a comma, such as a pair, needs a type alias or `auto`.
#define BOLE_ASSIGN_OR_RETURN(lhs, expr) \
  BOLE_ASSIGN_OR_RETURN_(BOLE_CAT_(bole_result_, __LINE__), lhs, expr)

// A declaration cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define BOLE_ASSIGN_OR_RETURN_(result, lhs, expr) \
  auto result = (expr);                           \
  if (!result.ok()) return result.status();       \
  lhs = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)
#define BOLE_CAT_(a, b) BOLE_CAT2_(a, b)
#define BOLE_CAT2_(a, b) a##b

#endif  // BOLE_COMMON_STATUS_MACROS_H_
