// The text side of a checkpoint: its tokenizer and its chat template.
#ifndef BOLE_SCHEDULER_SERVICE_MODELS_MODEL_TEXT_H_
#define BOLE_SCHEDULER_SERVICE_MODELS_MODEL_TEXT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/chat/chat_template.h"
#include "common/tokenizer/tokenizer.h"

namespace bole {

// Immutable once loaded; every thread may use it.
struct ModelText {
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;  // Not every checkpoint has one.
};

// Loads them from the folder of a checkpoint. Errors name the file.
absl::StatusOr<ModelText> LoadModelText(const std::string& directory);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_MODELS_MODEL_TEXT_H_
