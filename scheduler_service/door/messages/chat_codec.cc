#include "scheduler_service/door/messages/chat_codec.h"

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/chat/output/output_format.h"
#include "common/chat/output/tool_set.h"
#include "common/field_error.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Json = nlohmann::ordered_json;

absl::Status CheckMembersOf(size_t count) {
  if (count <= kMaxJsonMembers) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the number of members is ",
                                                 count, "; allowed is [0, ",
                                                 kMaxJsonMembers, "]"));
}

// REQUIRES: `json` is not nested deeper than kMaxJsonDepth.
absl::Status CheckMembers(const nlohmann::json& json) {
  if (json.is_object()) {
    BOLE_RETURN_IF_ERROR(CheckMembersOf(json.size()));
  }
  if (!json.is_structured()) return absl::OkStatus();
  for (const nlohmann::json& item : json) {
    BOLE_RETURN_IF_ERROR(CheckMembers(item));
  }
  return absl::OkStatus();
}

// Parses the object in `text` twice: strictly, without an order, and then in
// order but without checks, in a time that grows with the members of an object.
absl::StatusOr<Json> ParseObject(const std::string& field,
                                 const std::string& text) {
  const absl::StatusOr<nlohmann::json> checked = ParseJson(text, kMaxJsonDepth);
  if (!checked.ok()) return InField(field, checked.status());
  if (!checked->is_object()) {
    return BadField(field, Quoted(text), "a JSON object");
  }
  if (absl::Status few = CheckMembers(*checked); !few.ok()) {
    return InField(field, few);
  }
  return Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
}

// Checks the sizes that are known before anything is parsed.
absl::Status CheckSizes(const v1::ChatInput& chat) {
  BOLE_RETURN_IF_ERROR(CheckAtMost(NumberOf("chat.messages"),
                                   chat.messages_size(), kMaxChatMessages));
  BOLE_RETURN_IF_ERROR(CheckAtMost(NumberOf("chat.tools_json"),
                                   chat.tools_json_size(), kMaxTools));
  size_t json_bytes = chat.template_kwargs_json().size();
  for (const std::string& tool : chat.tools_json()) json_bytes += tool.size();
  for (const v1::ChatMessage& message : chat.messages()) {
    for (const v1::ToolCall& call : message.tool_calls()) {
      json_bytes += call.arguments_json().size();
    }
  }
  return CheckAtMost({"chat", "the number of bytes of JSON in chat"},
                     json_bytes, kMaxJsonBytes);
}

// Refuses what is not offered yet, and values that the enum does not have.
absl::Status CheckOffered(const v1::ChatInput& chat) {
  if (!v1::ToolChoice_IsValid(chat.tool_choice())) {
    return BadField("chat.tool_choice", static_cast<int>(chat.tool_choice()),
                    "a ToolChoice");
  }
  if (chat.tool_choice() == v1::TOOL_CHOICE_REQUIRED) {
    return UnimplementedField("chat.tool_choice");
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> DecodeToolCall(const std::string& field,
                                    const v1::ToolCall& call) {
  BOLE_RETURN_IF_ERROR(
      CheckAtMost(SizeOf(field + ".id"), call.id().size(), kMaxChatNameBytes));
  if (call.name().empty() || call.name().size() > kMaxChatNameBytes) {
    return BadField(SizeOf(field + ".name"), call.name().size(),
                    absl::StrCat("[1, ", kMaxChatNameBytes, "]"));
  }
  Json function = {{"name", call.name()}, {"arguments", Json::object()}};
  if (!call.arguments_json().empty()) {
    BOLE_ASSIGN_OR_RETURN(
        function["arguments"],
        ParseObject(field + ".arguments_json", call.arguments_json()));
  }
  Json result = {{"type", "function"}, {"function", std::move(function)}};
  if (!call.id().empty()) result["id"] = call.id();
  return result;
}

absl::StatusOr<Json> DecodeMessage(const std::string& field,
                                   const v1::ChatMessage& message) {
  if (message.role().empty() || message.role().size() > kMaxRoleBytes) {
    return BadField(absl::StrCat(field, ".role"), Quoted(message.role()),
                    absl::StrCat("a text of 1 to ", kMaxRoleBytes, " bytes"));
  }
  BOLE_RETURN_IF_ERROR(CheckAtMost(NumberOf(field + ".tool_calls"),
                                   message.tool_calls_size(), kMaxTools));
  Json json = {{"role", message.role()}, {"content", message.content()}};
  if (!message.reasoning_content().empty()) {
    json["reasoning_content"] = message.reasoning_content();
  }
  const std::pair<const char*, const std::string*> names[] = {
      {"tool_call_id", &message.tool_call_id()}, {"name", &message.name()}};
  for (const auto& [key, value] : names) {
    BOLE_RETURN_IF_ERROR(CheckAtMost(SizeOf(absl::StrCat(field, ".", key)),
                                     value->size(), kMaxChatNameBytes));
    if (!value->empty()) json[key] = *value;
  }
  for (int i = 0; i < message.tool_calls_size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(
        Json call, DecodeToolCall(absl::StrCat(field, ".tool_calls[", i, "]"),
                                  message.tool_calls(i)));
    json["tool_calls"].push_back(std::move(call));
  }
  return json;
}

// How the answer to `prompt`, rendered from `context`, is to be parsed.
absl::StatusOr<OutputFormat> FormatOf(const TemplateForm& form,
                                      const Json& context,
                                      std::string_view prompt) {
  OutputFormat format = {.start = StartOf(form, prompt)};
  const auto tools = context.find("tools");
  if (tools == context.end()) return format;
  if (!form.calls) {
    return AboutField("chat.parse_output",
                      absl::UnimplementedError(
                          "chat.parse_output with chat.tools_json is not "
                          "implemented for the form in which the model's chat "
                          "template writes calls, if it writes any"));
  }
  format.calls = form.calls;
  format.tools = ToolSet(*tools);
  return format;
}

}  // namespace

absl::StatusOr<Json> DecodeChat(const v1::ChatInput& chat) {
  BOLE_RETURN_IF_ERROR(CheckOffered(chat));
  BOLE_RETURN_IF_ERROR(CheckSizes(chat));
  Json context = {{"messages", Json::array()},
                  {"add_generation_prompt", !chat.has_add_generation_prompt() ||
                                                chat.add_generation_prompt()}};
  for (int i = 0; i < chat.messages_size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(Json message,
                          DecodeMessage(absl::StrCat("chat.messages[", i, "]"),
                                        chat.messages(i)));
    context["messages"].push_back(std::move(message));
  }
  for (int i = 0; i < chat.tools_json_size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(Json tool,
                          ParseObject(absl::StrCat("chat.tools_json[", i, "]"),
                                      chat.tools_json(i)));
    if (chat.tool_choice() == v1::TOOL_CHOICE_NONE) continue;
    context["tools"].push_back(std::move(tool));
  }
  if (chat.template_kwargs_json().empty()) return context;
  BOLE_ASSIGN_OR_RETURN(
      const Json variables,
      ParseObject("chat.template_kwargs_json", chat.template_kwargs_json()));
  for (const auto& [name, value] : variables.items()) {
    if (name == "messages" || name == "tools" ||
        name == "add_generation_prompt") {
      return BadField({"chat.template_kwargs_json",
                       "a member of chat.template_kwargs_json"},
                      Quoted(name), "what has no field of its own");
    }
    context[name] = value;
  }
  return context;
}

absl::StatusOr<RenderedChat> RenderChat(const v1::ChatInput& chat,
                                        const ModelText& text) {
  if (!text.chat_template) {
    return AboutField("chat",
                      absl::InvalidArgumentError(
                          "chat: the model has no chat template; send text"));
  }
  BOLE_ASSIGN_OR_RETURN(const Json context, DecodeChat(chat));
  absl::StatusOr<std::string> rendered = text.chat_template->Render(context);
  if (!rendered.ok()) return InField("chat", rendered.status());
  RenderedChat result = {.text = *std::move(rendered)};
  if (!chat.parse_output()) return result;
  BOLE_ASSIGN_OR_RETURN(
      OutputFormat format,
      FormatOf(text.chat_template->form(), context, result.text));
  result.output = std::make_shared<const OutputFormat>(std::move(format));
  return result;
}

}  // namespace bole
