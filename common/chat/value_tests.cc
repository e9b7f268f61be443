#include "common/chat/value_tests.h"

namespace bole::jinja {
namespace {

struct NamedTest {
  std::string_view name;
  ValueTest test;
};

constexpr NamedTest kTests[] = {
    {"boolean", ValueTest::kBoolean},     {"defined", ValueTest::kDefined},
    {"false", ValueTest::kFalse},         {"float", ValueTest::kFloat},
    {"integer", ValueTest::kInteger},     {"iterable", ValueTest::kIterable},
    {"mapping", ValueTest::kMapping},     {"none", ValueTest::kNone},
    {"number", ValueTest::kNumber},       {"sequence", ValueTest::kSequence},
    {"string", ValueTest::kString},       {"true", ValueTest::kTrue},
    {"undefined", ValueTest::kUndefined},
};

bool IsInteger(const Value& value) {
  return value.Is<int64_t>() || value.Is<BigUnsigned>();
}

bool IsString(const Value& value) { return value.AsString() != nullptr; }
bool IsMapping(const Value& value) { return value.AsDict() != nullptr; }

// Strings and mappings are sequences too, and so is what is undefined: it has
// a length and items, all of them missing.
bool IsSequence(const Value& value) {
  return IsString(value) || IsMapping(value) || value.AsList() != nullptr ||
         value.Is<Undefined>();
}

}  // namespace

std::optional<ValueTest> FindTest(std::string_view name) {
  for (const NamedTest& named : kTests) {
    if (named.name == name) return named.test;
  }
  return std::nullopt;
}

bool Passes(ValueTest test, const Value& value) {
  switch (test) {
    case ValueTest::kBoolean:
      return value.Is<bool>();
    case ValueTest::kDefined:
      return !value.Is<Undefined>();
    case ValueTest::kFalse:
      return value.Is<bool>() && !value.Truthy();
    case ValueTest::kFloat:
      return value.Is<double>();
    case ValueTest::kInteger:
      return IsInteger(value);
    case ValueTest::kIterable:
      return IsSequence(value) || value.AsLoop() != nullptr;
    case ValueTest::kMapping:
      return IsMapping(value);
    case ValueTest::kNone:
      return value.Is<None>();
    case ValueTest::kNumber:
      return IsInteger(value) || value.Is<bool>() || value.Is<double>();
    case ValueTest::kSequence:
      return IsSequence(value);
    case ValueTest::kString:
      return IsString(value);
    case ValueTest::kTrue:
      return value.Is<bool>() && value.Truthy();
    case ValueTest::kUndefined:
      return value.Is<Undefined>();
  }
  return false;
}

}  // namespace bole::jinja
