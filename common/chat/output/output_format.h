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

// What stands inside of <tool_call> and </tool_call>; white space may stand
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

// A conversation with one call, which tells the form of calls as a template
// writes it.
nlohmann::ordered_json CallProbe();

// `source` is the text of the template, `probe` what it makes of CallProbe(),
// empty if it refuses that.
TemplateForm FormOf(std::string_view source, std::string_view probe);

// How the output of one request is to be read.
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

// Where the output of a prompt begins: the prompt's own end tells it, which is
// the template's, so that no message of a client can pretend another.
OutputFormat::Start StartOf(const TemplateForm& form, std::string_view prompt);

}  // namespace bole

#endif  // BOLE_COMMON_CHAT_OUTPUT_OUTPUT_FORMAT_H_
