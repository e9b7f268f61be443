// Renders conversations to prompt text with a checkpoint's own template.
#ifndef BOLE_COMMON_CHAT_CHAT_TEMPLATE_H_
#define BOLE_COMMON_CHAT_CHAT_TEMPLATE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/ast.h"
#include "common/chat/output/output_format.h"
#include "nlohmann/json_fwd.hpp"

namespace bole {

// A chat template in the part of Jinja that chat templates use (README.md).
//
// Immutable once made; Render may be called from any thread.
class ChatTemplate {
 public:
  // INVALID_ARGUMENT, with the line, if `source` is not a template;
  // UNIMPLEMENTED, with the line, if it uses what this interpreter lacks.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source);

  // The template of the checkpoint in folder `model_dir`: chat_template.jinja,
  // or else `chat_template` in tokenizer_config.json, a string or a list of
  // named templates of which "default" is taken. NOT_FOUND if there is neither.
  static absl::StatusOr<ChatTemplate> LoadFromCheckpoint(
      const std::string& model_dir);

  // The text for `context`, an object with the template's variables: messages,
  // add_generation_prompt, and where wanted tools, enable_thinking and others.
  // What is left out is undefined to the template, what is null is None.
  // Arguments of tool calls should be objects: templates iterate over them.
  //
  //   INVALID_ARGUMENT    the template refuses the conversation: the message is
  //                       the template's own. Or it does what the values do not
  //                       allow; the message then starts with the line.
  //   UNIMPLEMENTED       it needs a method that this interpreter lacks.
  //   RESOURCE_EXHAUSTED  too many steps, too much text, too deep.
  //
  // COST: linear in the context for templates in use; bounded for any template.
  absl::StatusOr<std::string> Render(
      const nlohmann::ordered_json& context) const;

  // How the template writes reasoning and calls, which is how the model will.
  const TemplateForm& form() const { return form_; }

 private:
  explicit ChatTemplate(jinja::Template parsed);

  TemplateForm form_;
  std::unique_ptr<const jinja::Template> parsed_;
};

}  // namespace bole

#endif  // BOLE_COMMON_CHAT_CHAT_TEMPLATE_H_
