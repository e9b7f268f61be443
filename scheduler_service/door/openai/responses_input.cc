#include "scheduler_service/door/openai/responses_input.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/field_error.h"
#include "common/status_macros.h"
#include "scheduler_service/door/openai/chat_fields.h"

namespace bole {
namespace {

// Returns the message of the model to which its next item belongs.
v1::ChatMessage& OpenTurn(v1::ChatInput& chat) {
  if (chat.messages_size() > 0) {
    v1::ChatMessage& last = *chat.mutable_messages(chat.messages_size() - 1);
    if (last.role() == "assistant") return last;
  }
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role("assistant");
  return message;
}

absl::Status Absent(const JsonFields& fields, const char* name) {
  return BadField(fields.PathOf(name), "absent", "a value");
}

absl::Status ReadMessage(JsonFields& fields, v1::ChatInput& chat) {
  BOLE_ASSIGN_OR_RETURN(const std::string role, ReadRole(fields));
  const OrderedJson* content = fields.Take("content");
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (content == nullptr) return Absent(fields, "content");
  BOLE_ASSIGN_OR_RETURN(const std::string text,
                        ReadContent(*content, fields.PathOf("content")));
  if (role != "assistant") {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role(role);
    message.set_content(text);
    return absl::OkStatus();
  }
  // Text after a call, or after other text, belongs to another turn.
  v1::ChatMessage* turn = &OpenTurn(chat);
  if (turn->tool_calls_size() > 0 || !turn->content().empty()) {
    turn = chat.add_messages();
    turn->set_role("assistant");
  }
  turn->set_content(text);
  return absl::OkStatus();
}

absl::Status ReadCall(JsonFields& fields, v1::ChatInput& chat) {
  const auto id = fields.TakeString("call_id");
  const auto name = fields.TakeString("name");
  const auto arguments = fields.TakeString("arguments");
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (!id) return Absent(fields, "call_id");
  if (!name) return Absent(fields, "name");
  v1::ToolCall& call = *OpenTurn(chat).add_tool_calls();
  call.set_id(*id);
  call.set_name(*name);
  call.set_arguments_json(arguments.value_or(""));
  return absl::OkStatus();
}

absl::Status ReadCallOutput(JsonFields& fields, v1::ChatInput& chat) {
  const auto id = fields.TakeString("call_id");
  const OrderedJson* output = fields.Take("output");
  BOLE_RETURN_IF_ERROR(fields.Finish());
  if (!id) return Absent(fields, "call_id");
  if (output == nullptr) return Absent(fields, "output");
  BOLE_ASSIGN_OR_RETURN(const std::string text,
                        ReadContent(*output, fields.PathOf("output")));
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role("tool");
  message.set_tool_call_id(*id);
  message.set_content(text);
  return absl::OkStatus();
}

absl::Status ReadReasoning(JsonFields& fields, v1::ChatInput& chat) {
  const OrderedJson* content = fields.TakeArray("content");
  fields.Ignore({"summary"});
  fields.AllowOnly("encrypted_content");
  BOLE_RETURN_IF_ERROR(fields.Finish());
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role("assistant");
  for (size_t i = 0; content != nullptr && i < content->size(); ++i) {
    JsonFields part((*content)[i],
                    absl::StrCat(fields.PathOf("content"), "[", i, "]"));
    part.AllowOnly("type", {"reasoning_text"});
    message.mutable_reasoning_content()->append(
        part.TakeString("text").value_or(""));
    BOLE_RETURN_IF_ERROR(part.Finish());
  }
  return absl::OkStatus();
}

absl::Status ReadItem(const OrderedJson& json, const std::string& path,
                      v1::ChatInput& chat) {
  JsonFields fields(json, path);
  const std::string type = fields.TakeString("type").value_or("message");
  // Fields that the server has set when it sent the item.
  fields.Ignore({"id", "status", "phase"});
  if (!fields.ok()) return fields.Finish();
  if (type == "message") return ReadMessage(fields, chat);
  if (type == "function_call") return ReadCall(fields, chat);
  if (type == "function_call_output") return ReadCallOutput(fields, chat);
  if (type == "reasoning") return ReadReasoning(fields, chat);
  return UnimplementedField(fields.PathOf("type"));
}

}  // namespace

absl::Status ReadResponsesInput(const OrderedJson& json,
                                const std::string& path, v1::ChatInput& chat) {
  if (json.is_string()) {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role("user");
    message.set_content(json.get<std::string>());
    return absl::OkStatus();
  }
  if (!json.is_array()) {
    return WrongValue(path, json, "a string or an array of items");
  }
  for (size_t i = 0; i < json.size(); ++i) {
    BOLE_RETURN_IF_ERROR(
        ReadItem(json[i], absl::StrCat(path, "[", i, "]"), chat));
  }
  return absl::OkStatus();
}

}  // namespace bole
