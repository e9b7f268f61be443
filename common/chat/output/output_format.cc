#include "common/chat/output/output_format.h"

#include "nlohmann/json.hpp"

namespace bole {

nlohmann::ordered_json CallProbe() {
  return nlohmann::ordered_json::parse(R"({
    "messages": [
      {"role": "user", "content": "q"},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "call_0", "type": "function",
         "function": {"name": "f", "arguments": {"p": "v"}}}]}],
    "add_generation_prompt": false})");
}

TemplateForm FormOf(std::string_view source, std::string_view probe) {
  TemplateForm form = {.reasoning = source.find(kThinkEndTag) != source.npos};
  constexpr std::string_view kXml =
      "<tool_call>\n<function=f>\n<parameter=p>\nv\n</parameter>\n"
      "</function>\n</tool_call>";
  constexpr std::string_view kJson =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"p\": "
      "\"v\"}}\n</tool_call>";
  if (probe.find(kXml) != probe.npos) form.calls = CallForm::kXml;
  if (probe.find(kJson) != probe.npos) form.calls = CallForm::kJson;
  return form;
}

OutputFormat::Start StartOf(const TemplateForm& form, std::string_view prompt) {
  using Start = OutputFormat::Start;
  if (!form.reasoning) return Start::kContent;
  while (!prompt.empty() && (prompt.back() == '\n' || prompt.back() == ' ')) {
    prompt.remove_suffix(1);
  }
  if (prompt.ends_with(kThinkTag)) return Start::kReasoning;
  if (prompt.ends_with(kThinkEndTag)) return Start::kAfterThought;
  return Start::kMayReason;
}

}  // namespace bole
