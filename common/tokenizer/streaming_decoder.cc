#include "common/tokenizer/streaming_decoder.h"

#include "common/tokenizer/utf8.h"

namespace bole {

std::string StreamingDecoder::Push(int32_t id) {
  if (skip_special_tokens_ && tokenizer_->IsSpecial(id)) return "";
  pending_ += tokenizer_->TokenBytes(id);
  std::string text;
  pending_.erase(0, AppendCompleteUtf8(pending_, &text));
  return text;
}

std::string StreamingDecoder::Finish() {
  std::string text = ReplaceInvalidUtf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace bole
