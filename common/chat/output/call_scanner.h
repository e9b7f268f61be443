// Scans one tool call, byte by byte.
#ifndef BOLE_COMMON_CHAT_OUTPUT_CALL_SCANNER_H_
#define BOLE_COMMON_CHAT_OUTPUT_CALL_SCANNER_H_

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/chat/output/output_format.h"
#include "common/chat/output/tool_set.h"

namespace bole {

inline constexpr size_t kMaxCallBytes = 256 << 10;
inline constexpr size_t kMaxFunctionNameBytes = 256;  // And of a parameter.

// A call of a function.
struct CallText {
  std::string name;
  std::string arguments_json;  // An object.
};

// Finds out whether a text starts with a call, and where the call ends.
//
// In the XML form a value ends at the first </parameter> after which another
// parameter or the end of the call follows, so that a value may contain tags.
// One newline at each end of a value is not part of it. If
// </function></tool_call> comes within a value, without a </parameter> before
// it, the model has forgotten a tag and the text is not a call.
//
// Not thread-safe. COST: constant for a byte, and linear in the call at its
// end.
class CallScanner {
 public:
  enum class Result {
    kMore,   // It may be a call.
    kWhole,  // It is a call, and ends with this byte.
    kNone,   // It is not a call, whatever follows.
  };

  // `tools` must outlive it.
  CallScanner(CallForm form, const ToolSet& tools);

  // Takes the last byte of `text`, which is the text from <tool_call> up to
  // there. REQUIRES: it is one byte longer than before, and the last result was
  // kMore.
  Result Push(std::string_view text);

  // The call. REQUIRES: the result was kWhole.
  CallText Take() { return std::move(call_); }

 private:
  enum class Part {
    kOpen,       // <tool_call>
    kFunction,   // <function= or {
    kName,       // of the function, and >
    kBody,       // <parameter= or </function>
    kParameter,  // The name of the parameter, and >
    kValue,      // up to a tag that ends it
    kJson,       // up to the end of the object
    kClose,      // </tool_call>
  };
  struct Parameter {
    std::string name;
    size_t begin = 0;  // Its value begins here
    size_t end = 0;    // and ends before this.
  };

  // The tag of `tags` that `text` has from tag_begin_ on, after white space;
  // empty while it may still become one; absent if it cannot.
  std::optional<std::string_view> Expect(
      std::string_view text, std::initializer_list<std::string_view> tags);
  // The name before a >; empty while it is incomplete; absent if it cannot be
  // one.
  std::optional<std::string_view> Name(std::string_view text) const;
  Result PushOpening(std::string_view text);
  Result PushName(std::string_view text);
  Result PushBody(std::string_view text);
  Result PushValue(std::string_view text);
  Result PushJson(std::string_view text);
  Result PushClose(std::string_view text);
  Result Go(Part part, std::string_view text);
  bool EndValue(std::string_view text);
  bool ReadXml(std::string_view text);
  bool ReadJson(std::string_view text);

  const CallForm form_;
  const ToolSet& tools_;
  Part part_ = Part::kOpen;
  size_t tag_begin_ = 0;  // Where the expected tag or name begins.
  CallText call_;
  std::vector<Parameter> parameters_;
  // The members below are used only for calls in JSON.
  std::vector<char> open_;  // Closing brackets still to come.
  bool in_string_ = false;
  bool escaped_ = false;
  size_t json_begin_ = 0;
  size_t json_end_ = 0;
  size_t nested_begin_ = 0;  // The one container within the outermost.
  size_t nested_end_ = 0;    // 0: there was none.
};

}  // namespace bole

#endif  // BOLE_COMMON_CHAT_OUTPUT_CALL_SCANNER_H_
