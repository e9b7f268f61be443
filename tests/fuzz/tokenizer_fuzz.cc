// A tokenizer.json of anybody's making, and text for it. The input is the
// document, then a byte 0xFF, which JSON text cannot hold, then the text.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/tokenizer/nfc.h"
#include "common/tokenizer/streaming_decoder.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8.h"

namespace bole {
namespace {

// Whatever the vocabulary, a stream decodes to what the whole decodes to.
void CheckDecoding(const Tokenizer& tokenizer,
                   const std::vector<int32_t>& ids) {
  for (const bool skip_special : {false, true}) {
    StreamingDecoder decoder(tokenizer, skip_special);
    std::string streamed;
    for (const int32_t id : ids) streamed += decoder.Push(id);
    streamed += decoder.Finish();
    BOLE_CHECK(streamed == tokenizer.Decode(ids, skip_special));
    BOLE_CHECK(IsValidUtf8(streamed));
  }
}

void CheckEncoding(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse_special : {false, true}) {
    const auto ids =
        tokenizer.Encode(text, {.parse_special_tokens = parse_special});
    if (!ids.ok()) continue;
    for (const int32_t id : *ids) {
      BOLE_CHECK(id >= 0 && id < tokenizer.num_ids());
    }
    CheckDecoding(tokenizer, *ids);
    // Nothing is lost but what normalisation changes.
    BOLE_CHECK(NormalizeNfc(tokenizer.Decode(*ids)) ==
               NormalizeNfc(ReplaceInvalidUtf8(text)));
  }
}

}  // namespace
}  // namespace bole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\xFF'), size);
  const auto tokenizer = bole::Tokenizer::FromJson(input.substr(0, end));
  if (!tokenizer.ok()) return 0;
  const std::string_view text = input.substr(std::min(end + 1, size));
  bole::CheckEncoding(**tokenizer, text);
  // The text's bytes as ids, for decodings that no encoding gives.
  bole::CheckDecoding(**tokenizer, {text.begin(), text.end()});
  return 0;
}
