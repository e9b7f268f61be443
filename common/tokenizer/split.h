// Cutting text into the pieces that merges may not cross.
#ifndef BOLE_COMMON_TOKENIZER_SPLIT_H_
#define BOLE_COMMON_TOKENIZER_SPLIT_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bole {

// A compiled split pattern: every match is a piece, and so is every stretch
// between matches. Immutable, so safe to share between threads.
//
// The pattern is a Perl-compatible Unicode regular expression. `\s` means the
// Unicode property White_Space, as in the engines tokenizers are trained with;
// PCRE2's own also holds U+180E.
class SplitPattern {
 public:
  // INVALID_ARGUMENT, with the offset in the pattern, if it does not compile or
  // is longer than 16 KiB.
  static absl::StatusOr<SplitPattern> Compile(std::string_view pattern);

  SplitPattern(SplitPattern&&) = default;
  SplitPattern& operator=(SplitPattern&&) = default;

  // Appends the pieces of `text`, in order, to `pieces`. They are not empty,
  // they refer to `text`, and together they are `text`.
  //
  // RESOURCE_EXHAUSTED if the pattern needs more steps on this text than 10
  // million and 64 for each byte. A hostile pattern thus fails in bounded time;
  // the patterns in use need a few steps for each byte.
  //
  // REQUIRES: `text` is valid UTF-8.
  absl::Status Split(std::string_view text,
                     std::vector<std::string_view>* pieces) const;

 private:
  struct Free {
    void operator()(void* code) const;
  };

  explicit SplitPattern(void* code) : code_(code) {}

  std::unique_ptr<void, Free> code_;  // A pcre2_code.
};

}  // namespace bole

#endif  // BOLE_COMMON_TOKENIZER_SPLIT_H_
