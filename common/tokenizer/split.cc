#include "common/tokenizer/split.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/tokenizer/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace bole {
namespace {

constexpr size_t kMaxPatternBytes = 16 << 10;

// A match is tried with few steps first. Almost all need fewer than these, and
// what the others take is drawn from one budget for the whole text.
constexpr uint32_t kFirstMatchLimit = 1000;
constexpr uint32_t kMatchLimitGrowth = 16;
constexpr int64_t kBaseBudget = 10'000'000;
constexpr int64_t kBudgetPerByte = 64;
constexpr uint32_t kHeapLimitKib = 64 << 10;

PCRE2_SPTR Subject(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

std::string ErrorMessage(int code) {
  PCRE2_UCHAR message[256];
  if (pcre2_get_error_message(code, message, sizeof(message)) < 0) {
    return absl::StrCat("error ", code);
  }
  return reinterpret_cast<const char*>(message);
}

// `pattern` with \s and \S as properties. They are valid inside and outside of
// brackets.
std::string WithWhiteSpaceProperty(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    ++i;
    if (pattern[i] == 's') {
      out += "\\p{White_Space}";
    } else if (pattern[i] == 'S') {
      out += "\\P{White_Space}";
    } else {
      out += '\\';
      out += pattern[i];
    }
  }
  return out;
}

template <typename T, void (*kFree)(T*)>
struct Deleter {
  void operator()(T* p) const { kFree(p); }
};
using MatchData =
    std::unique_ptr<pcre2_match_data,
                    Deleter<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context,
                    Deleter<pcre2_match_context, pcre2_match_context_free>>;

// Searches one text for one pattern, under one budget.
class Search {
 public:
  Search(const pcre2_code* code, std::string_view text)
      : code_(code),
        text_(text),
        data_(pcre2_match_data_create_from_pattern(code, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        budget_(kBaseBudget +
                kBudgetPerByte * static_cast<int64_t>(text.size())) {}

  // Whether there is a match at or after `from`; begin() and end() are its
  // range then.
  absl::StatusOr<bool> Next(size_t from) {
    if (!data_ || !context_) return absl::ResourceExhaustedError("no memory");
    pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
    uint32_t limit = kFirstMatchLimit;
    int result = Match(from, limit);
    while (result == PCRE2_ERROR_MATCHLIMIT && budget_ > 0) {
      limit = static_cast<uint32_t>(
          std::min<int64_t>(int64_t{limit} * kMatchLimitGrowth, budget_));
      budget_ -= limit;
      result = Match(from, limit);
    }
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result >= 0) return true;
    return absl::ResourceExhaustedError(
        absl::StrCat("split pattern fails at byte ", from, " of ", text_.size(),
                     ": ", ErrorMessage(result)));
  }

  size_t begin() const { return pcre2_get_ovector_pointer(data_.get())[0]; }
  size_t end() const { return pcre2_get_ovector_pointer(data_.get())[1]; }

 private:
  int Match(size_t from, uint32_t limit) {
    pcre2_set_match_limit(context_.get(), limit);
    const auto match = [&](uint32_t options) {
      return pcre2_match(code_, Subject(text_), text_.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data_.get(),
                         context_.get());
    };
    const int result = match(0);
    // Compiled code has a small stack; the interpreter has a heap.
    return result == PCRE2_ERROR_JIT_STACKLIMIT ? match(PCRE2_NO_JIT) : result;
  }

  const pcre2_code* code_;
  std::string_view text_;
  MatchData data_;
  MatchContext context_;
  int64_t budget_;  // Steps left beyond the first attempt of each match.
};

}  // namespace

void SplitPattern::Free::operator()(void* code) const {
  pcre2_code_free(static_cast<pcre2_code*>(code));
}

absl::StatusOr<SplitPattern> SplitPattern::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("split pattern has ", pattern.size(),
                     " bytes; the limit is ", kMaxPatternBytes));
  }
  const std::string rewritten = WithWhiteSpaceProperty(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(Subject(rewritten), rewritten.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, nullptr);
  if (code == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("split pattern does not compile: ", ErrorMessage(error),
                     " at byte ", offset, " of ", rewritten));
  }
  SplitPattern result(code);
  // Where there is no compiler for this machine, the interpreter matches.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return result;
}

absl::Status SplitPattern::Split(std::string_view text,
                                 std::vector<std::string_view>* pieces) const {
  Search search(static_cast<const pcre2_code*>(code_.get()), text);
  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) pieces->push_back(text.substr(begin, end - begin));
  };
  size_t done = 0;  // text[0..done) is in pieces.
  size_t from = 0;
  while (from < text.size()) {
    BOLE_ASSIGN_OR_RETURN(const bool found, search.Next(from));
    if (!found) break;
    // \K can move the start of a match, in both directions.
    const size_t end = std::max(search.end(), from);
    const size_t begin = std::clamp(search.begin(), done, end);
    add(done, begin);
    add(begin, end);
    done = end;
    // An empty match ends a piece; the search goes on one character later.
    from = end > from ? end : from + ScanUtf8(text.substr(from)).size;
  }
  add(done, text.size());
  return absl::OkStatus();
}

}  // namespace bole
