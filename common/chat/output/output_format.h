// The form in which a checkpoint's chat template writes reasoning and calls.
#ifndef BOLE_COMMON_CHAT_OUTPUT_OUTPUT_FORMAT_H_
#define BOLE_COMMON_CHAT_OUTPUT_OUTPUT_FORMAT_H_

#include <optional>
#include <string_view>

#include "common/chat/output/tool_set.h"
#include "nlohmann/json_fwd.hpp"

namespace bole {

inline constexpr std::string_view kThinkTag = "<think>";
inline constexpr std::string_view kThinkEndTag = "</think>";
inline constexpr std::string_view kCallTag = "<tool_call>";
inline constexpr std::string_view kCallEndTag = "</tool_call>";

// What stands between <tool_call> and </tool_call>; white space may stand
// around every tag.
enum class CallForm {
  // <function=NAME> <parameter=NAME>\nVALUE\n</parameter> ... </function>
  kXml,
  // {"name": NAME, "arguments": OBJECT}
  kJson,
};

// What a template writes.
struct TemplateForm {
  bool reasoning = false;  // It knows <think> and </think>.
  std::optional<CallForm> calls = {};
};

// A conversation with one call. Its rendering shows the form in which a
// template writes calls.
nlohmann::ordered_json CallProbe();

// The form of a template: `source` is its text, and `probe` its rendering of
// CallProbe(), empty if it refuses that.
TemplateForm FormOf(std::string_view source, std::string_view probe);

// How to read the output of one request.
struct OutputFormat {
  enum class Start {
    kContent,       // There is no reasoning.
    kMayReason,     // <think> may come first.
    kReasoning,     // The prompt has opened it.
    kAfterThought,  // The prompt has closed it.
  };
  Start start = Start::kContent;
  std::optional<CallForm> calls = {};  // None: calls are content.
  ToolSet tools = {};                  // Those that may be called.
};

// How the output after a prompt starts, as the end of the prompt shows. The
// template writes that end, so no message of a client can fake it.
OutputFormat::Start StartOf(const TemplateForm& form, std::string_view prompt);

}  // namespace bole

#endif  // BOLE_COMMON_CHAT_OUTPUT_OUTPUT_FORMAT_H_
