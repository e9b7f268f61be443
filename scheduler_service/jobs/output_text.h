// Converts output tokens to text, up to a stop string.
#ifndef BOLE_SCHEDULER_SERVICE_JOBS_OUTPUT_TEXT_H_
#define BOLE_SCHEDULER_SERVICE_JOBS_OUTPUT_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/streaming_decoder.h"
#include "common/tokenizer/tokenizer.h"
#include "scheduler_service/jobs/request.h"

namespace bole {

// Detokenizes one request's output and looks for its stop strings, which may
// span tokens and rounds. Text that may be the start of a stop string is held
// back until it is known not to be.
//
// The results of Push() and Finish(), concatenated, are the text of all tokens
// up to the stop: without the stop string, or with it if it is to be included.
// The first stop string to be complete wins; of several that end together the
// one that starts first. A stop string that is complete before `min_tokens`
// tokens have come is ignored.
//
// Not thread-safe. The tokenizer and `params` must outlive it.
// COST: Push O(bytes of the token * number of stop strings).
class OutputText {
 public:
  OutputText(const Tokenizer& tokenizer, const TextParams& params,
             int32_t min_tokens = 0);

  // Returns the text that `token` releases, which is often empty.
  // REQUIRES: matched_stop() is empty.
  std::string Push(int32_t token);

  // The output has ended. Returns what was held back, and U+FFFD for an
  // incomplete character; nothing if a stop string ended the text.
  std::string Finish();

  // The stop string that ended the text; set by the Push() that completed it.
  const std::optional<std::string>& matched_stop() const {
    return matched_stop_;
  }

 private:
  // The search for one stop string (Knuth, Morris and Pratt).
  struct Matcher {
    explicit Matcher(std::string_view stop);

    // Takes the next byte. Returns true if the stop string ends with it; the
    // next occurrence may overlap with this one.
    bool Advance(char byte);

    std::string_view stop;
    // [size] border[i]: the longest proper prefix that ends stop[0 .. i].
    std::vector<size_t> border;
    size_t matched = 0;  // The longest proper prefix that ends the text so far.
  };

  // Looks at held_ from byte `begin` on, and cuts off and returns what can be
  // released.
  std::string Release(size_t begin);

  const int32_t min_tokens_;
  int32_t num_tokens_ = 0;
  bool include_stop_;
  StreamingDecoder decoder_;
  std::vector<Matcher> matchers_;
  std::string held_;  // Decoded and not returned.
  std::optional<std::string> matched_stop_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_JOBS_OUTPUT_TEXT_H_
