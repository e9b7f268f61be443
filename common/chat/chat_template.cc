#include "common/chat/chat_template.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/chat/budget.h"
#include "common/chat/interpreter.h"
#include "common/chat/output/output_format.h"
#include "common/chat/parser.h"
#include "common/chat/value.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "common/tokenizer/read_file.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

constexpr int kMaxConfigDepth = 16;
constexpr size_t kMaxConfigBytes = 16 << 20;

// The template named "default" of a list of {name, template}.
absl::StatusOr<std::string> DefaultOf(const nlohmann::json& templates) {
  for (const nlohmann::json& entry : templates) {
    if (!entry.is_object() ||
        entry.value("name", nlohmann::json()) != "default") {
      continue;
    }
    const auto source = entry.find("template");
    if (source != entry.end() && source->is_string()) {
      return source->get<std::string>();
    }
  }
  return absl::InvalidArgumentError("chat_template: no template named default");
}

// The template in the text of a tokenizer_config.json.
absl::StatusOr<std::string> TemplateInConfig(std::string_view text) {
  BOLE_ASSIGN_OR_RETURN(const nlohmann::json config,
                        ParseJson(text, kMaxConfigDepth));
  const auto field = config.find("chat_template");
  if (field == config.end() || field->is_null()) {
    return absl::NotFoundError("there is no chat_template");
  }
  if (field->is_string()) return field->get<std::string>();
  if (field->is_array()) return DefaultOf(*field);
  return absl::InvalidArgumentError(
      absl::StrCat("chat_template: must be a string or a list, but it is a ",
                   field->type_name()));
}

// Roughly how large a document is.
//
// REQUIRES: it is not nested deeper than jinja::kMaxValueDepth.
size_t SizeOf(const nlohmann::ordered_json& json) {
  constexpr size_t kNodeBytes = 16;
  if (json.is_string()) {
    return kNodeBytes + json.get_ref<const std::string&>().size();
  }
  size_t size = kNodeBytes;
  if (json.is_structured()) {
    for (const auto& item : json) size += SizeOf(item);
  }
  return size;
}

absl::Status WithPath(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  BOLE_ASSIGN_OR_RETURN(jinja::Template parsed, jinja::ParseTemplate(source));
  ChatTemplate result(std::move(parsed));
  std::string probe;
  if (source.find(kCallTag) != source.npos) {
    probe = result.Render(CallProbe()).value_or("");
  }
  result.form_ = FormOf(source, probe);
  return result;
}

ChatTemplate::ChatTemplate(jinja::Template parsed)
    : parsed_(std::make_unique<const jinja::Template>(std::move(parsed))) {}

absl::StatusOr<ChatTemplate> ChatTemplate::LoadFromCheckpoint(
    const std::string& model_dir) {
  std::string path = model_dir + "/chat_template.jinja";
  absl::StatusOr<std::string> source = ReadFile(path, jinja::kMaxTemplateBytes);
  if (absl::IsNotFound(source.status())) {
    path = model_dir + "/tokenizer_config.json";
    BOLE_ASSIGN_OR_RETURN(const std::string config,
                          ReadFile(path, kMaxConfigBytes));
    source = TemplateInConfig(config);
    if (!source.ok()) return WithPath(path, source.status());
  }
  if (!source.ok()) return source.status();
  absl::StatusOr<ChatTemplate> result = Parse(*source);
  if (!result.ok()) return WithPath(path, result.status());
  return result;
}

absl::StatusOr<std::string> ChatTemplate::Render(
    const nlohmann::ordered_json& context) const {
  if (!context.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the context must be an object, but it is a ", context.type_name()));
  }
  BOLE_ASSIGN_OR_RETURN(const jinja::Value value,
                        jinja::Value::FromJson(context));
  jinja::Budget budget = jinja::Budget::ForContext(SizeOf(context));
  return jinja::Interpreter(*parsed_, *value.AsDict(), &budget).Render();
}

}  // namespace bole
