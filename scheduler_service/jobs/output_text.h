// Output tokens as text, up to a stop string.
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

// Detokenizes one request's output and looks for its stop strings, wherever
// tokens and rounds cut them. Text that may be the start of a stop string is
// held back until it is known not to be.
//
// What Push() and Finish() return is, put together, the text of all tokens up
// to where it stopped: without the stop string, or with it if it is to be
// included. The first stop string to be complete wins; of several that end
// together the one that starts first. One that is complete before so many
// tokens as the text has to have ends nothing.
//
// Not thread-safe. The tokenizer and `params` must outlive it.
// COST: Push O(bytes of the token * number of stop strings).
class OutputText {
 public:
  OutputText(const Tokenizer& tokenizer, const TextParams& params,
             int32_t min_tokens = 0);

  // The text that `token` releases, often empty.
  // REQUIRES: matched_stop() is empty.
  std::string Push(int32_t token);

  // The output ended without a stop string: what was held back, and U+FFFD for
  // a character that was not finished. Nothing if a stop string ended it.
  std::string Finish();

  // The stop string that ended the text, from the Push() on that completed it.
  const std::optional<std::string>& matched_stop() const {
    return matched_stop_;
  }

 private:
  // One stop string on its way through the text (Knuth, Morris and Pratt).
  struct Matcher {
    explicit Matcher(std::string_view stop);

    // Takes the next byte; true if the stop string ends with it. The next one
    // may have begun within it.
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
