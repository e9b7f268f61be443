#include "scheduler_service/door/openai/chat_fields.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/field_error.h"
#include "common/status_macros.h"

namespace bole {
namespace {

absl::StatusOr<std::string> ReadPart(const OrderedJson& json,
                                     const std::string& path) {
  JsonFields fields(json, path);
  fields.AllowOnly("type", {"text", "input_text", "output_text"});
  const std::optional<std::string> text = fields.TakeString("text");
  fields.Ignore({"annotations", "logprobs"});
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (text) return *text;
  return BadField(fields.PathOf("text"), "absent", "a string");
}

absl::StatusOr<v1::ToolCall> ReadToolCall(const OrderedJson& json,
                                          const std::string& path) {
  v1::ToolCall call;
  JsonFields fields(json, path);
  fields.AllowOnly("type", {"function"});
  call.set_id(fields.TakeString("id").value_or(""));
  const OrderedJson* function = fields.Take("function");
  fields.Ignore({"index"});
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (function == nullptr) {
    return BadField(fields.PathOf("function"), "absent", "an object");
  }
  JsonFields inner(*function, fields.PathOf("function"));
  call.set_name(inner.TakeString("name").value_or(""));
  call.set_arguments_json(inner.TakeString("arguments").value_or(""));
  BOLE_RETURN_IF_ERROR(inner.Finish());
  return call;
}

// A function as a chat's template is to see it.
absl::StatusOr<std::string> ReadTool(const OrderedJson& json,
                                     const std::string& path, bool flat) {
  JsonFields fields(json, path);
  fields.AllowOnly("type", {"function"});
  const OrderedJson* function = flat ? &json : fields.Take("function");
  if (!flat) BOLE_RETURN_IF_ERROR(fields.Finish());
  if (!fields.ok()) return fields.Finish();
  if (function == nullptr) {
    return BadField(fields.PathOf("function"), "absent", "an object");
  }
  JsonFields inner(*function, flat ? path : fields.PathOf("function"));
  if (flat) inner.Ignore({"type"});
  const std::optional<std::string> name = inner.TakeString("name");
  inner.TakeString("description");
  const OrderedJson* parameters = inner.Take("parameters");
  inner.AllowOnly("strict", false);
  BOLE_RETURN_IF_ERROR(inner.Finish());
  if (!name) return BadField(inner.PathOf("name"), "absent", "a string");
  if (parameters != nullptr && !parameters->is_object()) {
    return WrongValue(inner.PathOf("parameters"), *parameters, "an object");
  }
  // In the order of the client. Strictness is the server's business, and
  // nothing that the model should read.
  OrderedJson shown = OrderedJson::object();
  for (const auto& [key, value] : function->items()) {
    if (key == "strict" || value.is_null() || (flat && key == "type")) continue;
    shown[key] = value;
  }
  return OrderedJson{{"type", "function"}, {"function", std::move(shown)}}
      .dump();
}

void ReadToolChoice(JsonFields& fields, v1::ChatInput& chat) {
  const OrderedJson* choice = fields.Take("tool_choice");
  if (choice == nullptr) return;
  const std::string path = fields.PathOf("tool_choice");
  if (*choice == "auto") {
    chat.set_tool_choice(v1::TOOL_CHOICE_AUTO);
  } else if (*choice == "none") {
    chat.set_tool_choice(v1::TOOL_CHOICE_NONE);
  } else if (*choice == "required" || choice->is_object()) {
    fields.Fail(UnimplementedField(path));
  } else {
    fields.Fail(WrongValue(path, *choice, "auto or none"));
  }
}

}  // namespace

absl::StatusOr<std::string> ReadContent(const OrderedJson& json,
                                        const std::string& path) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) {
    return WrongValue(path, json, "a string or an array of text parts");
  }
  std::string text;
  for (size_t i = 0; i < json.size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(const std::string part,
                          ReadPart(json[i], absl::StrCat(path, "[", i, "]")));
    text += part;
  }
  return text;
}

absl::StatusOr<std::string> ReadRole(JsonFields& fields) {
  const std::optional<std::string> role = fields.TakeString("role");
  if (!fields.ok()) return fields.Finish();
  const std::string path = fields.PathOf("role");
  if (!role) return BadField(path, "absent", "a string");
  if (*role == "developer") return "system";
  for (const char* known : {"system", "user", "assistant", "tool"}) {
    if (*role == known) return *role;
  }
  if (*role == "function") return UnimplementedField(path);
  return BadField(path, Quoted(*role),
                  "system, developer, user, assistant or tool");
}

absl::StatusOr<v1::ChatMessage> ReadChatMessage(const OrderedJson& json,
                                                const std::string& path) {
  v1::ChatMessage message;
  JsonFields fields(json, path);
  BOLE_ASSIGN_OR_RETURN(*message.mutable_role(), ReadRole(fields));
  message.set_reasoning_content(
      fields.TakeString("reasoning_content").value_or(""));
  message.set_tool_call_id(fields.TakeString("tool_call_id").value_or(""));
  message.set_name(fields.TakeString("name").value_or(""));
  const OrderedJson* calls = fields.TakeArray("tool_calls");
  const OrderedJson* content = fields.Take("content");
  // Answers have them, and come back as messages.
  for (const char* absent : {"audio", "function_call", "refusal"}) {
    fields.AllowOnly(absent);
  }
  const OrderedJson* annotations = fields.TakeArray("annotations");
  if (annotations != nullptr && !annotations->empty()) {
    fields.Fail(UnimplementedField(fields.PathOf("annotations")));
  }
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (content != nullptr) {
    BOLE_ASSIGN_OR_RETURN(*message.mutable_content(),
                          ReadContent(*content, fields.PathOf("content")));
  } else if (message.role() != "assistant") {
    return BadField(fields.PathOf("content"), "absent",
                    "a string or an array of text parts");
  }
  for (size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
    BOLE_ASSIGN_OR_RETURN(
        *message.add_tool_calls(),
        ReadToolCall((*calls)[i],
                     absl::StrCat(fields.PathOf("tool_calls"), "[", i, "]")));
  }
  return message;
}

void ReadTools(JsonFields& fields, bool flat_tools, v1::ChatInput& chat) {
  const OrderedJson* tools = fields.TakeArray("tools");
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    absl::StatusOr<std::string> tool =
        ReadTool((*tools)[i], absl::StrCat(fields.PathOf("tools"), "[", i, "]"),
                 flat_tools);
    if (!tool.ok()) return fields.Fail(tool.status());
    chat.add_tools_json(*std::move(tool));
  }
  ReadToolChoice(fields, chat);
  fields.AllowOnly("parallel_tool_calls", true);
  if (const OrderedJson* kwargs = fields.Take("chat_template_kwargs")) {
    if (!kwargs->is_object()) {
      return fields.Fail(WrongValue(fields.PathOf("chat_template_kwargs"),
                                    *kwargs, "an object"));
    }
    chat.set_template_kwargs_json(kwargs->dump());
  }
  if (const auto value = fields.TakeBool("add_generation_prompt")) {
    chat.set_add_generation_prompt(*value);
  }
}

}  // namespace bole
