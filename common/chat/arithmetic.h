// Arithmetic between values, as in Python.
#ifndef BOLE_COMMON_CHAT_ARITHMETIC_H_
#define BOLE_COMMON_CHAT_ARITHMETIC_H_

#include "absl/status/statusor.h"
#include "common/chat/ast.h"
#include "common/chat/value.h"

namespace bole::jinja {

// left + right and so on, without kAnd, kOr and kConcat. Numbers are int64 or
// double. INVALID_ARGUMENT for types that have no such operator, division by
// zero and overflow; UNIMPLEMENTED for `%` of a string.
absl::StatusOr<Value> Arithmetic(BinaryOp op, const Value& left,
                                 const Value& right);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_ARITHMETIC_H_
