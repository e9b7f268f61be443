#include "scheduler_service/jobs/output_text.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace bole {

OutputText::Matcher::Matcher(std::string_view stop)
    : stop(stop), border(stop.size(), 0) {
  size_t length = 0;
  for (size_t i = 1; i < stop.size(); ++i) {
    while (length > 0 && stop[i] != stop[length]) length = border[length - 1];
    if (stop[i] == stop[length]) ++length;
    border[i] = length;
  }
}

bool OutputText::Matcher::Advance(char byte) {
  while (matched > 0 && byte != stop[matched]) matched = border[matched - 1];
  if (byte == stop[matched]) ++matched;
  if (matched < stop.size()) return false;
  matched = border.back();
  return true;
}

OutputText::OutputText(const Tokenizer& tokenizer, const TextParams& params,
                       int32_t min_tokens)
    : min_tokens_(min_tokens),
      include_stop_(params.include_stop_in_output),
      decoder_(tokenizer, params.skip_special_tokens) {
  matchers_.reserve(params.stop.size());
  for (const std::string& stop : params.stop) {
    BOLE_CHECK(!stop.empty());
    matchers_.emplace_back(stop);
  }
}

std::string OutputText::Push(int32_t token) {
  BOLE_CHECK(!matched_stop_);
  ++num_tokens_;
  const size_t begin = held_.size();
  held_ += decoder_.Push(token);
  return Release(begin);
}

std::string OutputText::Finish() {
  if (matched_stop_) return "";
  return std::exchange(held_, "") + decoder_.Finish();
}

std::string OutputText::Release(size_t begin) {
  for (size_t i = begin; i < held_.size(); ++i) {
    // The longest of the stop strings that end here began first.
    std::string_view complete;
    for (Matcher& matcher : matchers_) {
      if (matcher.Advance(held_[i]) && matcher.stop.size() > complete.size()) {
        complete = matcher.stop;
      }
    }
    if (complete.empty() || num_tokens_ < min_tokens_) continue;
    matched_stop_ = std::string(complete);
    held_.resize(i + 1 - (include_stop_ ? 0 : complete.size()));
    return std::exchange(held_, "");
  }
  size_t hold = 0;
  for (const Matcher& matcher : matchers_) {
    hold = std::max(hold, matcher.matched);
  }
  std::string released = held_.substr(0, held_.size() - hold);
  held_.erase(0, held_.size() - hold);
  return released;
}

}  // namespace bole
