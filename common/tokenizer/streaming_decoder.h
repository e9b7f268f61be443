// Decodes token ids to text as they arrive.
#ifndef BOLE_COMMON_TOKENIZER_STREAMING_DECODER_H_
#define BOLE_COMMON_TOKENIZER_STREAMING_DECODER_H_

#include <cstdint>
#include <string>

#include "common/tokenizer/tokenizer.h"

namespace bole {

// Decodes one stream of ids. The results of all calls of Push and of Finish,
// concatenated, equal Tokenizer::Decode of all the ids.
//
// A copy continues independently from the same point. Not thread-safe. The
// tokenizer must outlive it.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer,
                            bool skip_special_tokens = false)
      : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

  // The text that `id` completes, in whole characters; often empty inside of a
  // character. Bytes that can no longer be part of one become U+FFFD.
  std::string Push(int32_t id);

  // What is left: U+FFFD if the ids ended inside of a character, else nothing.
  // The decoder is then in its initial state.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::string pending_;  // The start of a character, at most 3 bytes.
};

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_STREAMING_DECODER_H_
