// The functions that a model may call, and what their parameters are.
#ifndef BOLE_COMMON_CHAT_OUTPUT_TOOL_SET_H_
#define BOLE_COMMON_CHAT_OUTPUT_TOOL_SET_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace bole {

// How deep the JSON of a call's arguments may be nested.
inline constexpr int kMaxCallDepth = 64;

// The kinds of JSON values that a schema allows.
struct ValueKinds {
  bool string = false;
  bool number = false;  // Integers as well.
  bool boolean = false;
  bool null = false;
  bool object = false;
  bool array = false;
};

// Immutable once made; every thread may use it.
class ToolSet {
 public:
  ToolSet() = default;
  // `tools` is a list of functions as OpenAI's API has them, with or without
  // {"type": "function", "function": ...} around them. Functions without a name
  // are left out; of several with the same name the first counts.
  explicit ToolSet(const nlohmann::ordered_json& tools);

  bool empty() const { return functions_.empty(); }
  bool Has(std::string_view function) const {
    return functions_.contains(function);
  }
  // The kinds that the function's schema gives for the parameter: its `type`,
  // those in its `anyOf` or `oneOf`, or those of the values in its `enum`. All
  // kinds if it says nothing, or does not know the parameter.
  ValueKinds KindsOf(std::string_view function,
                     std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, ValueKinds, std::less<>>;
  std::map<std::string, Parameters, std::less<>> functions_;
};

// The JSON of a value that a template wrote as text. The text is parsed as
// JSON, in which true, false and null may be spelled as in Python. If that
// succeeds, the result is that JSON, unless `kinds` allows strings: then it
// must also be of one of the other kinds that `kinds` allows. In all other
// cases the result is the text as a string. Numbers keep their spelling, so
// that they lose no digits.
//
// COST: linear in the text.
std::string ParameterJson(std::string_view text, const ValueKinds& kinds);

// `text` as a JSON string; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace bole

#endif  // BOLE_COMMON_CHAT_OUTPUT_TOOL_SET_H_
