// Tests: what may stand after `is`.
#ifndef BOLE_COMMON_CHAT_VALUE_TESTS_H_
#define BOLE_COMMON_CHAT_VALUE_TESTS_H_

#include <optional>
#include <string_view>

#include "common/chat/value.h"

namespace bole::jinja {

enum class ValueTest {
  kBoolean,
  kDefined,
  kFalse,
  kFloat,
  kInteger,
  kIterable,
  kMapping,
  kNone,
  kNumber,
  kSequence,
  kString,
  kTrue,
  kUndefined,
};

// The test of that name, if it is supported.
std::optional<ValueTest> FindTest(std::string_view name);

bool Passes(ValueTest test, const Value& value);

}  // namespace bole::jinja

#endif  // BOLE_COMMON_CHAT_VALUE_TESTS_H_
