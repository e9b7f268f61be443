#include "scheduler_service/models/model_text.h"

#include <utility>

#include "absl/status/status.h"
#include "common/status_macros.h"

namespace bole {

absl::StatusOr<ModelText> LoadModelText(const std::string& directory) {
  ModelText text;
  BOLE_ASSIGN_OR_RETURN(text.tokenizer,
                        Tokenizer::Load(directory + "/tokenizer.json"));
  absl::StatusOr<ChatTemplate> chat_template =
      ChatTemplate::LoadFromCheckpoint(directory);
  if (chat_template.ok()) {
    text.chat_template = *std::move(chat_template);
  } else if (!absl::IsNotFound(chat_template.status())) {
    return chat_template.status();
  }
  return text;
}

}  // namespace bole
