#include "common/chat/output/output_parser.h"

#include <algorithm>
#include <utility>

namespace bole {

using Start = OutputFormat::Start;

OutputParser::OutputParser(std::shared_ptr<const OutputFormat> format)
    : format_(std::move(format)),
      part_(format_->start == Start::kMayReason   ? Part::kStart
            : format_->start == Start::kReasoning ? Part::kReasoning
                                                  : Part::kContent),
      drop_newlines_(format_->start == Start::kReasoning ||
                     format_->start == Start::kAfterThought) {}

OutputDelta OutputParser::Push(std::string_view text) {
  OutputDelta out;
  held_ += text;
  Read(out);
  return out;
}

OutputDelta OutputParser::Finish() {
  OutputDelta out;
  // No whole call stands within one that has not ended: its end would have
  // ended that one.
  if (part_ == Part::kCall || part_ == Part::kStart) part_ = Part::kContent;
  plain_ = held_.size();
  Read(out);
  if (!after_call_) EmitNewlines(out);
  newlines_ = 0;
  return out;
}

void OutputParser::Read(OutputDelta& out) {
  size_t at = 0;
  while (part_ == Part::kCall ? ReadCall(at, out) : ReadText(at, out)) {
  }
  held_.erase(0, at);
  begin_ += at;
  plain_ -= std::min(plain_, at);
}

std::string_view OutputParser::Tag() const {
  switch (part_) {
    case Part::kStart:
      return kThinkTag;
    case Part::kReasoning:
      return kThinkEndTag;
    default:
      return format_->calls && num_calls_ < kMaxOutputCalls ? kCallTag : "";
  }
}

void OutputParser::Emit(std::string_view text, OutputDelta& out) {
  (part_ == Part::kReasoning ? out.reasoning : out.content) += text;
}

void OutputParser::EmitNewlines(OutputDelta& out) {
  if (!drop_newlines_) Emit(std::string(newlines_, '\n'), out);
  newlines_ = 0;
}

void OutputParser::TakeTag(size_t& at) {
  if (part_ == Part::kContent) {
    part_ = Part::kCall;
    scanner_.emplace(*format_->calls, format_->tools);
    scanned_ = 0;
    return;
  }
  at += Tag().size();
  part_ = part_ == Part::kStart ? Part::kReasoning : Part::kContent;
  newlines_ = 0;
  drop_newlines_ = true;
}

bool OutputParser::ReadText(size_t& at, OutputDelta& out) {
  const std::string_view tag = Tag();
  while (at < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(at);
    if (rest[0] == '\n') {
      ++newlines_;
      ++at;
      continue;
    }
    if (at >= plain_ && !tag.empty() && rest[0] == '<') {
      if (rest.starts_with(tag)) {
        TakeTag(at);
        return true;
      }
      if (tag.starts_with(rest)) return false;
    }
    if (part_ == Part::kStart) {
      part_ = Part::kContent;
      return true;
    }
    EmitNewlines(out);
    drop_newlines_ = false;
    after_call_ = false;
    // A "<" that begins no tag is text, and so is what follows up to the next
    // byte that may begin something.
    size_t size = std::min(rest.find_first_of("<\n", 1), rest.size());
    if (at < plain_) size = std::min(size, plain_ - at);
    Emit(rest.substr(0, size), out);
    at += size;
  }
  return false;
}

bool OutputParser::ReadCall(size_t& at, OutputDelta& out) {
  using Result = CallScanner::Result;
  const std::string_view text = std::string_view(held_).substr(at);
  Result result = Result::kMore;
  while (result == Result::kMore && scanned_ < text.size()) {
    result = scanner_->Push(text.substr(0, ++scanned_));
  }
  if (result == Result::kMore) return false;
  part_ = Part::kContent;
  if (result == Result::kNone) {
    // It is text, up to the last call that may have begun within it: any other
    // would have failed as well.
    const size_t inner = text.substr(0, scanned_).rfind(kCallTag);
    plain_ = at + (inner > 0 ? inner : kCallTag.size());
    return true;
  }
  CallText call = scanner_->Take();
  out.calls.push_back({.name = std::move(call.name),
                       .arguments_json = std::move(call.arguments_json),
                       .begin = begin_ + at,
                       .size = scanned_,
                       .number = num_calls_++});
  at += scanned_;
  newlines_ = 0;
  drop_newlines_ = false;
  after_call_ = true;
  return true;
}

}  // namespace bole
